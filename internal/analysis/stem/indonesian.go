package stem

// What indonesian has taken off, because some suffixes never stand with some prefixes.
const (
	tookKe = 1 << iota
	tookPeng
	tookDi
	tookMeng
	tookTer
	tookBer
	tookPe
)

// affix is a rule for the beginning of a word: it loses its first cut characters, and the character that is then first
// becomes to, if set. The rule applies only where a vowel follows the prefix, if vowel is set.
type affix struct {
	prefix string
	cut    int
	vowel  bool
	to     rune
	took   int
}

var indonesianPrefixes = []affix{
	{prefix: "meng", cut: 4, took: tookMeng}, {prefix: "meny", cut: 3, vowel: true, to: 's', took: tookMeng}, {prefix: "men", cut: 3, took: tookMeng},
	{prefix: "mem", cut: 3, took: tookMeng}, {prefix: "me", cut: 2, took: tookMeng},
	{prefix: "peng", cut: 4, took: tookPeng}, {prefix: "peny", cut: 3, vowel: true, to: 's', took: tookPeng}, {prefix: "peny", cut: 4, took: tookPeng},
	{prefix: "pen", cut: 2, vowel: true, to: 't', took: tookPeng}, {prefix: "pen", cut: 3, took: tookPeng}, {prefix: "pem", cut: 3, took: tookPeng},
	{prefix: "di", cut: 2, took: tookDi}, {prefix: "ter", cut: 3, took: tookTer}, {prefix: "ke", cut: 2, took: tookKe},
}

// indonesian takes off particles, possessive pronouns, prefixes and suffixes as long as more than two syllables are left, by
// F. Z. Tala's algorithm ("A study of stemming effects on information retrieval in Bahasa Indonesia", 2003).
func indonesian(w []rune) []rune {
	syllables, took := 0, 0
	for _, c := range w {
		if oneOf(c, "aeiou") {
			syllables++
		}
	}
	// shorten takes off n characters at the end if there are syllables left to lose.
	shorten := func(n int) {
		w = w[:len(w)-n]
		syllables--
	}
	behead := func(n int) {
		w = append(w[:0], w[n:]...)
		syllables--
	}
	if syllables > 2 && (endsIn(w, "kah") || endsIn(w, "lah") || endsIn(w, "pun")) {
		shorten(3)
	}
	if syllables > 2 {
		switch {
		case endsIn(w, "ku"), endsIn(w, "mu"):
			shorten(2)
		case endsIn(w, "nya"):
			shorten(3)
		}
	}
	first := func() bool {
		for _, p := range indonesianPrefixes {
			n := len(p.prefix)
			if !beginsWith(w, p.prefix) || p.vowel && (len(w) <= n || !oneOf(w[n], "aeiou")) {
				continue
			}
			behead(p.cut)
			if p.to != 0 {
				w[0] = p.to
			}
			took |= p.took
			return true
		}
		return false
	}
	second := func() {
		switch {
		case beginsWith(w, "ber"), len(w) == 7 && beginsWith(w, "belajar"):
			behead(3)
			took |= tookBer
		case len(w) > 4 && beginsWith(w, "be") && !oneOf(w[2], "aeiou") && w[3] == 'e' && w[4] == 'r':
			behead(2)
			took |= tookBer
		case beginsWith(w, "per"), len(w) == 7 && beginsWith(w, "pelajar"):
			behead(3)
		case beginsWith(w, "pe"):
			behead(2)
			took |= tookPe
		}
	}
	last := func() bool {
		switch {
		case endsIn(w, "kan") && took&(tookKe|tookPeng|tookPe) == 0:
			shorten(3)
		case endsIn(w, "an") && took&(tookDi|tookMeng|tookTer) == 0:
			shorten(2)
		case endsIn(w, "i") && !endsIn(w, "si") && took&(tookBer|tookKe|tookPeng) == 0:
			shorten(1)
		default:
			return false
		}
		return true
	}
	if syllables > 2 && first() {
		if syllables > 2 && last() && syllables > 2 {
			second()
		}
		return w
	}
	if syllables > 2 {
		second()
	}
	if syllables > 2 {
		last()
	}
	return w
}

func beginsWith(w []rune, prefix string) bool {
	i := 0
	for _, c := range prefix {
		if i >= len(w) || w[i] != c {
			return false
		}
		i++
	}
	return true
}
