package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// urlTokens is the tokenizer uax_url_email: the words of standard, but a URL or an e-mail address is one token.
//
//	a URL     http, https, ftp or file with ://, or a host name that begins with www. or ends in a well-known domain and that a
//	          port, a path or a query follows; up to the first character that RFC 3986 does not allow, less closing
//	          punctuation, and less a bracket that nothing opens
//	an address   up to 64 letters, digits and signs of RFC 5322's atom, with single dots, then @ and a host name of two labels or
//	          more, the last of them letters
//
// Both begin where a word begins. A bare host name is one word of standard anyhow.
type urlTokens struct {
	seg segmenter
}

func (s *urlTokens) reset(text string) { s.seg.text, s.seg.at = text, 0 }

func (s *urlTokens) next(t *token) bool {
	start, end := s.seg.next()
	if end == 0 {
		return false
	}
	text := s.seg.text
	if text[start] < utf8.RuneSelf || unicode.IsLetter(first(text[start:])) {
		n := urlLength(text[start:], s.seg.max)
		if m := emailLength(text[start:]); m > n && m <= s.seg.max {
			n = m
		}
		if start+n > end {
			end = start + n
			s.seg.at = end
		}
	}
	t.set(text[start:end], 1, start, end)
	return true
}

func first(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// wellKnown are domains that make a host name with a path a URL where no scheme says so: the oldest generic ones and the
// countries of ISO 3166.
var wellKnown = func() map[string]bool {
	const domains = `com org net edu gov mil int info biz name pro aero coop museum arpa app dev
ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cc cd cf cg ch ci ck cl cm cn co cr cu cv
cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gb gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie
il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt
mu mv mw mx my mz na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb sc sd se sg sh si sj sk sl
sm sn so sr ss st sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw`
	out := map[string]bool{}
	for _, d := range strings.Fields(domains) {
		out[d] = true
	}
	return out
}()

// maxHost is the longest host name of RFC 1035, in bytes.
const maxHost = 253

// hostLength is the length of the host name that text begins with, with the start of its last label; 0 where there is none.
// Labels are letters, digits and inner hyphens, 63 bytes at most.
func hostLength(text string) (n, last, labels int) {
	i := 0
	for {
		label := i
		for i < len(text) && i-label <= 63 && i <= maxHost {
			c := text[i]
			if c == '-' && i > label || asciiKind[c]&aWord != 0 {
				i++
				continue
			}
			if c < utf8.RuneSelf {
				break
			}
			r, w := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && w <= 1 || !unicode.IsLetter(r) && !unicode.Is(unicode.Nd, r) && !unicode.Is(unicode.Mn, r) {
				break
			}
			i += w
		}
		end := i
		for end > label && text[end-1] == '-' {
			end--
		}
		if end == label || end-label > 63 || end > maxHost {
			return n, last, labels
		}
		n, last = end, label
		labels++
		if end < i || i >= len(text) || text[i] != '.' {
			return n, last, labels
		}
		i++
	}
}

// letters reports whether a label is letters only.
func letters(label string) bool {
	for _, r := range label {
		if !unicode.IsLetter(r) {
			return false
		}
	}
	return len(label) >= 2
}

// urlLength is the length of the URL that text begins with, at most about longest UTF-16 units; 0 where there is none.
func urlLength(text string, longest int) int {
	i, scheme := 0, false
	for _, s := range [...]string{"http://", "https://", "ftp://", "file://"} {
		if len(text) > len(s) && text[0]|0x20 == s[0] && strings.EqualFold(text[:len(s)], s) {
			i, scheme = len(s), true
			break
		}
	}
	if scheme {
		i += userLength(text[i:])
		switch n, _, _ := hostLength(text[i:]); {
		case n > 0:
			i += n
		case strings.HasPrefix(text[i:], "["):
			end := strings.IndexByte(text[i:min(len(text), i+48)], ']')
			if end < 0 || strings.Trim(text[i+1:i+end], "0123456789abcdefABCDEF:.") != "" {
				return 0
			}
			i += end + 1
		case !strings.EqualFold(text[:4], "file") || !strings.HasPrefix(text[i:], "/"):
			return 0
		}
	} else {
		n, last, labels := hostLength(text)
		if labels < 2 {
			return 0
		}
		www := len(text) > 4 && strings.EqualFold(text[:4], "www.")
		if !www && (len(text[last:n]) > 8 || !wellKnown[strings.ToLower(text[last:n])]) {
			return 0
		}
		i = n
		if i >= len(text) || text[i] != '/' && text[i] != '?' && text[i] != '#' && portLength(text[i:]) == 0 {
			return 0
		}
	}
	i += portLength(text[i:])
	if i < len(text) && (text[i] == '/' || text[i] == '?' || text[i] == '#') {
		tail := i
		for i < len(text) && i < longest && urlByte(text[i]) {
			if text[i] == '%' && (i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2])) {
				break
			}
			i++
		}
		i = tail + trimmed(text[tail:i])
	}
	return min(i, longest)
}

// userLength is the length of a user name, perhaps with a password, and the @ behind it; 0 where there is none.
func userLength(text string) int {
	for i := 0; i < len(text) && i < 128; i++ {
		switch c := text[i]; {
		case c == '@':
			return i + 1
		case asciiKind[c]&aWord == 0 && !strings.ContainsRune("-._~!$&'()*+,;=:%", rune(c)):
			return 0
		}
	}
	return 0
}

// portLength is the length of a colon and one to five digits.
func portLength(text string) int {
	i := 1
	for i < len(text) && i <= 5 && asciiKind[text[i]] == aDigit {
		i++
	}
	if i == 1 || text[0] != ':' || i < len(text) && asciiKind[text[i]]&aWord != 0 {
		return 0
	}
	return i
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// urlByte reports whether a byte may stand in the path, query or fragment of a URL.
func urlByte(c byte) bool {
	return asciiKind[c]&aWord != 0 || c < utf8.RuneSelf && strings.IndexByte("-._~!$&'()*+,;=:@/?#%", c) >= 0
}

// trimmed is the length of the tail of a URL without closing punctuation and without brackets that it does not open.
func trimmed(tail string) int {
	n := len(tail)
	for n > 0 {
		switch tail[n-1] {
		case '.', ',', ';', ':', '!', '?', '\'', '*':
		case ')':
			if strings.Count(tail[:n], "(") >= strings.Count(tail[:n], ")") {
				return n
			}
		default:
			return n
		}
		n--
	}
	return n
}

// emailLength is the length of the e-mail address that text begins with, 0 where there is none.
func emailLength(text string) int {
	i := 0
	for ; i < len(text) && i <= 64; i++ {
		c := text[i]
		if asciiKind[c]&aWord != 0 || c < utf8.RuneSelf && strings.IndexByte("!#$%&'*+/=?^_`{|}~-", c) >= 0 {
			continue
		}
		if c == '.' && i > 0 && text[i-1] != '.' {
			continue
		}
		break
	}
	if i == 0 || i > 64 || i >= len(text) || text[i] != '@' || text[i-1] == '.' {
		return 0
	}
	i++
	n, last, labels := hostLength(text[i:])
	if labels < 2 || !letters(text[i+last:i+n]) {
		return 0
	}
	return i + n
}
