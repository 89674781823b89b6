package stem

// The endings of Sorani as Lucene's SoraniStemmer has them: postpositions, possessive pronouns, then articles, plurals and
// the linking vowel.
var (
	soraniPostpositions = []suffix{{min: 5, end: "دا", cut: 2}, {min: 4, end: "نا", cut: 1}, {min: 6, end: "ەوە", cut: 3}}
	soraniPronouns      = []suffix{{min: 6, end: "مان", cut: 3}, {min: 6, end: "یان", cut: 3}, {min: 6, end: "تان", cut: 3}}
	soraniArticles      = []suffix{
		{min: 6, end: "ێکی", cut: 3}, {min: 7, end: "یەکی", cut: 4}, {min: 5, end: "ێک", cut: 2}, {min: 6, end: "یەک", cut: 3},
		{min: 6, end: "ەکە", cut: 3}, {min: 5, end: "کە", cut: 2}, {min: 7, end: "ەکان", cut: 4}, {min: 6, end: "کان", cut: 3},
		{min: 7, end: "یانی", cut: 4}, {min: 6, end: "انی", cut: 3}, {min: 6, end: "یان", cut: 3}, {min: 5, end: "ان", cut: 2},
		{min: 7, end: "یانە", cut: 4}, {min: 6, end: "انە", cut: 3}, {min: 5, end: "ایە", cut: 2}, {min: 5, end: "ەیە", cut: 2},
		{min: 4, end: "ە", cut: 1}, {min: 4, end: "ی", cut: 1},
	}
)

func sorani(w []rune) []rune {
	return applyFirst(soraniArticles, applyFirst(soraniPronouns, applyFirst(soraniPostpositions, w)))
}
