package stem

// The endings of Czech by L. Dolamic and J. Savoy ("Indexing and stemming approaches for the Czech language", 2009): those
// of declension, then those of possessives.
var (
	czechCases = func() (rules []suffix) {
		for _, group := range []struct {
			min, cut int
			ends     []string
		}{
			{7, 5, []string{"atech"}},
			{6, 4, []string{"ětem", "etem", "atům"}},
			{5, 3, []string{"ech", "ich", "ích", "ého", "ěmi", "emi", "ému", "ěte", "ete", "ěti", "eti", "ího", "iho", "ími", "ímu", "imu", "ách", "ata", "aty", "ých",
				"ama", "ami", "ové", "ovi", "ými"}},
			{4, 2, []string{"em", "es", "ém", "ím", "ům", "at", "ám", "os", "us", "ým", "mi", "ou"}},
			{3, 1, []string{"a", "e", "i", "o", "u", "ů", "y", "á", "é", "í", "ý", "ě"}},
		} {
			for _, e := range group.ends {
				rules = append(rules, suffix{min: group.min, end: e, cut: group.cut})
			}
		}
		return rules
	}()
	czechPossessives = []suffix{{min: 5, end: "ov", cut: 2}, {min: 5, end: "in", cut: 2}, {min: 5, end: "ův", cut: 2}}
	// The consonants that change before endings, brought back.
	czechConsonants = []suffix{{end: "čt", cut: 2, add: "ck"}, {end: "št", cut: 2, add: "sk"}, {end: "c", cut: 1, add: "k"}, {end: "č", cut: 1, add: "k"},
		{end: "z", cut: 1, add: "h"}, {end: "ž", cut: 1, add: "h"}}
)

// czech takes off case and possessive endings and evens out consonants and the vowels that come and go.
func czech(w []rune) []rune {
	w = applyFirst(czechPossessives, applyFirst(czechCases, w))
	for i := range czechConsonants {
		if r := &czechConsonants[i]; r.fits(w) {
			return r.apply(w)
		}
	}
	switch n := len(w); {
	case n > 1 && w[n-2] == 'e':
		w[n-2] = w[n-1]
		w = w[:n-1]
	case n > 2 && w[n-2] == 'ů':
		w[n-2] = 'o'
	}
	return w
}

// The endings of Bulgarian by J. Savoy ("Searching strategies for the Bulgarian language", 2007): articles, then plurals.
var (
	bulgarianArticles = []suffix{
		{min: 6, end: "ият", cut: 3},
		{min: 5, end: "ът", cut: 2}, {min: 5, end: "то", cut: 2}, {min: 5, end: "те", cut: 2}, {min: 5, end: "та", cut: 2}, {min: 5, end: "ия", cut: 2},
		{min: 4, end: "ят", cut: 2},
	}
	bulgarianPlurals = []suffix{
		{min: 6, end: "овци", cut: 3}, {min: 6, end: "ове", cut: 3}, {min: 6, end: "еве", cut: 3, add: "й"},
		{min: 5, end: "ища", cut: 3}, {min: 5, end: "та", cut: 2}, {min: 5, end: "ци", cut: 2, add: "к"}, {min: 5, end: "зи", cut: 2, add: "г"},
	}
	bulgarianLast = []suffix{{min: 4, end: "си", cut: 2, add: "х"}, {min: 4, end: "и", cut: 1}}
)

// bulgarian takes off article, plural and the last vowel.
func bulgarian(w []rune) []rune {
	if len(w) < 4 {
		return w
	}
	if len(w) > 5 && endsIn(w, "ища") {
		return w[:len(w)-3]
	}
	w = applyFirst(bulgarianArticles, w)
	before := len(w)
	last := w[before-1]
	w = applyFirst(bulgarianPlurals, w)
	if n := len(w); n == before && w[n-1] == last {
		if n > 5 && w[n-3] == 'е' && w[n-1] == 'и' {
			w[n-3] = 'я'
			w = w[:n-1]
		} else {
			w = applyFirst(bulgarianLast, w)
		}
	}
	if len(w) > 3 {
		if endsIn(w, "я") {
			w = w[:len(w)-1]
		}
		if n := len(w); oneOf(w[n-1], "аое") {
			w = w[:n-1]
		}
	}
	if n := len(w); n > 4 && endsIn(w, "ен") {
		w[n-2] = 'н'
		w = w[:n-1]
	}
	if n := len(w); n > 5 && w[n-2] == 'ъ' {
		w[n-2] = w[n-1]
		w = w[:n-1]
	}
	return w
}
