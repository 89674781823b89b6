package analysis

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

func cut(text string, careful bool) (out []string) {
	s := segmenter{text: text, max: maxToken, careful: careful}
	for {
		start, end := s.next()
		if end == 0 {
			return out
		}
		out = append(out, text[start:end])
	}
}

// oracle cuts by an independent implementation of UAX #29 (Unicode 17) and keeps what the segmenter should keep.
func oracle(text string) (out []string) {
	t := unicodeClasses()
	seg := words.FromString(text)
	complexUntil := -1
	for seg.Next() {
		w := seg.Value()
		first, _ := utf8.DecodeRuneInString(w)
		switch {
		case strings.ContainsFunc(w, func(r rune) bool {
			c := t.of(r)
			return c.alphabetic() || c == cDigit || c == cKatakana
		}):
			out = append(out, w)
		case t.of(first) == cHan, t.of(first) == cHiragana, t.of(first) == cEmoji, t.of(first) == cModifier:
			out = append(out, w)
		case t.of(first) == cRegion && strings.Count(w, string(first))+utf8.RuneCountInString(w) > 2:
			out = append(out, w)
		case t.of(first) == cComplex || t.of(first) == cComplexMark:
			if complexUntil == seg.Start() {
				out[len(out)-1] += w
			} else {
				out = append(out, w)
			}
			complexUntil = seg.End()
		}
	}
	return out
}

// alphabet holds characters of every class, so that random texts meet every rule.
var alphabet = []string{"a", "B", "z", "0", "7", " ", " ", " ", ".", ",", "'", "’", "_", "\"", ":", ";", "-", "\n", "é", "ß", "İ", "д", "א", "ש", "ア", "ｶ", "ー", "漢", "字", "ひ",
	"한", "글", "\u0301", "\u200d", "\u00ad", "\u200b", "٣", "٬", "·", "١", "〳", "ا", "ب", "€", "\u00a0", "𝒳", "𝟘", "क", "ि", "्"}

func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

func TestWordsAgreeWithUAX29(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		text := randomText(rng, 1+rng.IntN(24))
		got, want := cut(text, false), oracle(text)
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("%q\n is cut to %q\nUAX #29 says %q", text, got, want)
		}
	}
}

// later are the characters that later versions of Unicode gave another class than the tables here have.
var later = map[rune]bool{0xb8: true, 0x19da: true, 0xfe10: true, 0xfe14: true}

func TestBothPathsCutTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		text := randomText(rng, 1+rng.IntN(40))
		if rng.IntN(20) == 0 {
			text = strings.Repeat(text, 20) // words beyond the longest
		}
		samePaths(t, text)
	}
}

func samePaths(t *testing.T, text string) {
	t.Helper()
	fast, careful := cut(text, false), cut(text, true)
	if strings.Join(fast, "|") != strings.Join(careful, "|") {
		t.Fatalf("%q\n is cut to %q on the fast path\n and to %q by the full rules", text, fast, careful)
	}
}

func FuzzSegment(f *testing.F) {
	for _, s := range []string{"", "Hello, world", "don't can’t", "#️⃣ 3️⃣", "a.b 1.2 a:b", "\xff\xc0a\x80", "👩‍❤️‍👩👍🏽🇩🇪🇫🇷🇦", "ไทยครับ", "__a_1__"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		samePaths(t, text)
		for _, w := range cut(text, false) {
			if units := len(strings.ToValidUTF8(w, "?")); w == "" || units > 4*(maxToken+1) {
				t.Fatalf("%q: a word of %d bytes", text, units)
			}
		}
	})
}

// TestChecksum guards A2: it fails when another toolchain changes the class or the lower case of any character. Then raise
// the revisions of the fingerprints and put the new sum here.
func TestChecksum(t *testing.T) {
	h := fnv.New64a()
	classes := unicodeClasses()
	var line []byte
	for r := rune(0); r <= unicode.MaxRune; r++ {
		line = strconv.AppendInt(line[:0], int64(classes.of(r)), 10)
		line = strconv.AppendInt(append(line, ' '), int64(unicode.ToLower(r)), 10)
		line = strconv.AppendBool(append(line, ' '), unicode.IsLetter(r))
		line = strconv.AppendBool(append(line, ' '), unicode.In(r, unicode.Z))
		h.Write(append(line, ','))
	}
	if got := fmt.Sprintf("%x", h.Sum64()); got != "5b8775b7ff32de86" {
		t.Errorf("the characters of Unicode %s have the checksum %s", unicode.Version, got)
	}
}

func TestClassesAgreeWithUAX29(t *testing.T) {
	classes := unicodeClasses()
	joined := func(s string) bool {
		seg := words.FromString(s)
		seg.Next()
		return len(seg.Value()) == len(s)
	}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r <= 0xdfff || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Cf) {
			continue
		}
		s := string(r)
		var want, got string
		switch {
		case joined("a" + s + " "):
			want = "space?"
		case joined("-" + s):
			want = "ignored"
		case joined("a"+s) && joined("ア"+s):
			want = "join"
		case joined("a" + s):
			if joined(s+"'") && !joined("a'1") {
				want = "hebrew"
			} else if joined("a'" + s) {
				want = "letter"
			} else {
				want = "digit"
			}
		case joined("ア" + s):
			want = "katakana"
		case joined("a"+s+"a") && joined("1"+s+"1"):
			want = "midboth"
		case joined("a" + s + "a"):
			want = "midletter"
		case joined("1" + s + "1"):
			want = "middigit"
		case joined("\u200d" + s):
			want = "emoji"
		default:
			want = "other"
		}
		switch c := classes.of(r); {
		case c.ignored():
			got = "ignored"
		case c == cLetter:
			got = "letter"
		case c == cHebrew:
			got = "hebrew"
		case c == cDigit:
			got = "digit"
		case c == cKatakana:
			got = "katakana"
		case c == cJoin:
			got = "join"
		case c == cMidLetter:
			got = "midletter"
		case c == cMidDigit:
			got = "middigit"
		case c == cMidBoth:
			got = "midboth"
		case c == cEmoji:
			got = "emoji"
		default:
			got = "other"
		}
		// Pictures are those of Lucene 8, which counts more of them.
		if got != want && got != "emoji" && !later[r] {
			t.Errorf("%U %q: %s, UAX #29 of Unicode 17 says %s", r, r, got, want)
		}
	}
}
