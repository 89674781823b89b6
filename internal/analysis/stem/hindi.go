package stem

// hindiSuffixes are the endings of Hindi by A. Ramanathan and D. D. Rao ("A lightweight stemmer for Hindi", 2003): all of an
// ending goes where at least two characters are left, the longest endings first.
var hindiSuffixes = func() (rules []suffix) {
	for i, ends := range [][]string{
		{"ाएंगी", "ाएंगे", "ाऊंगी", "ाऊंगा", "ाइयाँ", "ाइयों", "ाइयां"},
		{"ाएगी", "ाएगा", "ाओगी", "ाओगे", "एंगी", "ेंगी", "एंगे", "ेंगे", "ूंगी", "ूंगा", "ातीं", "नाओं", "नाएं", "ताओं", "ताएं", "ियाँ", "ियों", "ियां"},
		{"ाकर", "ाइए", "ाईं", "ाया", "ेगी", "ेगा", "ोगी", "ोगे", "ाने", "ाना", "ाते", "ाती", "ाता", "तीं", "ाओं", "ाएं", "ुओं", "ुएं", "ुआं"},
		{"कर", "ाओ", "िए", "ाई", "ाए", "ने", "नी", "ना", "ते", "ीं", "ती", "ता", "ाँ", "ां", "ों", "ें"},
		{"ो", "े", "ू", "ु", "ी", "ि", "ा"},
	} {
		cut := 5 - i
		for _, e := range ends {
			rules = append(rules, suffix{min: cut + 1, end: e, cut: cut})
		}
	}
	return rules
}()

func hindi(w []rune) []rune { return applyFirst(hindiSuffixes, w) }
