// Package stem answers: what is left of a word when its inflections are taken off?
//
// A stem is a string that the forms of a word share; it need not be a word. A stemmer expects lower case and keeps a memory
// of the words it has met, because text repeats itself and most algorithms cost more than a look-up.
//
//	Snowball's   the algorithms of the Snowball project, version 2, by language
//	porter       M. F. Porter's of 1980 with the departures that Lucene's PorterStemFilter has; english is another name of it
//	light_*      J. Savoy's, which take off plurals and genders only ("Light Stemming Approaches for the French, Portuguese,
//	             German and Hungarian Languages", 2006; "Report on CLEF-2001 Experiments")
//	arabic       light10 of L. Larkey, L. Ballesteros and M. Connell
//	bulgarian, czech, hindi, indonesian, sorani   as Lucene has them; their sources stand at the code
//
// T1  A stem never changes while the fingerprints of the analyzers stay: the tests hold a checksum of each over a list of words.
//
// T2  Words that are not UTF-8 and words beyond MaxWord bytes are their own stems.
package stem

import (
	"slices"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/porter"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// MaxWord is the longest word that is stemmed, in bytes: 255 characters of any script.
const MaxWord = 4 * 255

// snowball holds the generated algorithms by language.
var snowball = map[string]func(*snowballstem.Env) bool{
	"arabic": arabic.Stem, "danish": danish.Stem, "dutch": dutch.Stem, "english": english.Stem, "finnish": finnish.Stem, "french": french.Stem,
	"german": german.Stem, "hungarian": hungarian.Stem, "irish": irish.Stem, "italian": italian.Stem, "norwegian": norwegian.Stem,
	"porter": porter.Stem, "portuguese": portuguese.Stem, "romanian": romanian.Stem, "russian": russian.Stem, "spanish": spanish.Stem,
	"swedish": swedish.Stem, "tamil": tamil.Stem, "turkish": turkish.Stem,
}

// byRunes holds the algorithms of ours, which shorten a word in place. Those of Savoy count characters.
var byRunes = map[string]func([]rune) []rune{
	"arabic": lightArabic, "bulgarian": bulgarian, "czech": czech, "hindi": hindi, "indonesian": indonesian, "sorani": sorani, "light_french": lightFrench, "light_german": lightGerman, "light_italian": lightItalian,
	"light_portuguese": lightPortuguese, "light_spanish": lightSpanish, "minimal_french": minimalFrench,
}

// Stemmer stems words. It belongs to one goroutine.
type Stemmer struct {
	runes func([]rune) []rune
	ball  func(*snowballstem.Env) bool
	env   *snowballstem.Env
	chars []rune
	wide  []uint16
	met   int // words, while there is no memo
	memo  *memo
}

// Languages lists the algorithms of Snowball that Snowball knows, sorted.
func Languages() []string {
	out := make([]string, 0, len(snowball))
	for name := range snowball {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Names lists what New knows, sorted: the names that Elasticsearch's stemmer filter has, and tamil.
func Names() []string {
	out := []string{"english", "porter", "porter2"}
	for name := range snowball {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for name := range byRunes {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Snowball gives the stemmer of the Snowball project for a language, or false where there is none.
func Snowball(language string) (*Stemmer, bool) {
	f := snowball[language]
	return &Stemmer{ball: f}, f != nil
}

// New gives the stemmer of a name of Names, or false where there is none. english and porter are Porter's algorithm, porter2
// is Snowball's of English, arabic is light10; the other languages are Snowball's.
func New(name string) (*Stemmer, bool) {
	switch name {
	case "english", "porter":
		return &Stemmer{}, true
	case "porter2":
		return Snowball("english")
	}
	if f := byRunes[name]; f != nil {
		return &Stemmer{runes: f}, true
	}
	return Snowball(name)
}

// Append appends the stem of a word to dst, which must not overlap the word.
func (s *Stemmer) Append(dst, word []byte) []byte {
	if len(word) > MaxWord {
		return append(dst, word...)
	}
	slot := s.slot(word)
	if slot != nil && slot.word == string(word) {
		return append(dst, slot.stem...)
	}
	if !utf8.Valid(word) {
		return append(dst, word...)
	}
	n := len(dst)
	switch {
	case s.ball != nil:
		if s.env == nil {
			s.env = snowballstem.NewEnv("")
		}
		s.env.SetCurrent(string(word))
		s.env.LimitBackward = 0
		s.ball(s.env)
		dst = append(dst, s.env.Current()...)
	case s.runes != nil:
		s.chars = s.chars[:0]
		for i := 0; i < len(word); {
			r, w := utf8.DecodeRune(word[i:])
			s.chars = append(s.chars, r)
			i += w
		}
		s.chars = s.runes(s.chars)
		for _, r := range s.chars {
			dst = utf8.AppendRune(dst, r)
		}
	default:
		var stem []byte
		stem, s.wide = PorterUTF8(append(dst, word...)[n:], s.wide)
		dst = append(dst[:n], stem...)
	}
	if slot != nil && len(word) <= memoWord {
		slot.word, slot.stem = string(word), string(dst[n:])
	}
	return dst
}

// memo remembers the stems of short words, one slot a hash; the newest word wins.
type memo [4096]struct{ word, stem string }

const (
	memoAfter = 256 // the memo takes 128 KiB and its words, so a stemmer gets one only after so many
	memoWord  = 64  // the longest word in it, in bytes
)

// slot is the place of a word in the memo, nil while there is none.
func (s *Stemmer) slot(word []byte) *struct{ word, stem string } {
	if s.memo == nil {
		if s.met++; s.met <= memoAfter {
			return nil
		}
		s.memo = new(memo)
	}
	h := uint32(2166136261)
	for _, c := range word {
		h = (h ^ uint32(c)) * 16777619
	}
	return &s.memo[(h^h>>15)%uint32(len(s.memo))]
}
