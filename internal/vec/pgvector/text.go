package pgvector

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Parse reads the text form [1,2,3] and appends the elements to into. Numbers are those of C's strtof: decimal or
// hexadecimal, with or without a fraction and an exponent. What is too small becomes 0; what is too large is an error.
func (d *Dense) Parse(s string, into []float32) ([]float32, error) {
	bad := func() ([]float32, error) { return nil, badText(s, d.name) }
	i := skipSpace(s, 0)
	if i == len(s) || s[i] != '[' {
		return bad()
	}
	i = skipSpace(s, i+1)
	if i < len(s) && s[i] == ']' {
		return nil, noDimensions(d.name)
	}
	for n := 0; ; n++ {
		if n == MaxDim {
			return nil, tooMany(d.name, MaxDim)
		}
		i = skipSpace(s, i)
		end := scanFloat(s, i)
		if end == i {
			return bad()
		}
		x, err := parseFloat(s[i:end])
		half := d.round(x)
		if err != nil || math.IsInf(float64(half), 0) && !math.IsInf(float64(x), 0) {
			return nil, tooLarge(s[i:end], d.name)
		}
		if err := checkElement(half, d.name); err != nil {
			return nil, err
		}
		into = append(into, half)
		i = skipSpace(s, end)
		if i == len(s) {
			return bad()
		}
		c := s[i]
		i++
		if c == ']' {
			break
		}
		if c != ',' {
			return bad()
		}
	}
	if skipSpace(s, i) != len(s) {
		return bad()
	}
	return into, nil
}

func badText(s, typ string) error {
	return fail(CodeSyntax, "invalid input syntax for type %s: \"%s\"", typ, s)
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// scanFloat is the end of the longest number at i as strtof reads it, or i if none stands there.
func scanFloat(s string, i int) int {
	start := i
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	if end := scanWord(s, i); end > i {
		return end
	}
	digits, exponent := isDigit, byte('e')
	if hex := i + 2; hex < len(s) && s[i] == '0' && s[i+1]|0x20 == 'x' && (isHex(s[hex]) || s[hex] == '.' && hex+1 < len(s) && isHex(s[hex+1])) {
		digits, exponent = isHex, 'p'
		i = hex
	}
	n := 0
	for ; i < len(s) && digits(s[i]); i++ {
		n++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && digits(s[i]); i++ {
			n++
		}
	}
	if n == 0 {
		return start
	}
	if i < len(s) && s[i]|0x20 == exponent {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for i = j; i < len(s) && isDigit(s[i]); i++ {
			}
		}
	}
	return i
}

// scanWord is the end of an infinity or a NaN at i.
func scanWord(s string, i int) int {
	for _, w := range [...]string{"infinity", "inf", "nan"} {
		if len(s)-i < len(w) || !strings.EqualFold(s[i:i+len(w)], w) {
			continue
		}
		end := i + len(w)
		if w == "nan" && end < len(s) && s[end] == '(' {
			j := end + 1
			for j < len(s) && (isDigit(s[j]) || s[j]|0x20 >= 'a' && s[j]|0x20 <= 'z' || s[j] == '_') {
				j++
			}
			if j < len(s) && s[j] == ')' {
				end = j + 1
			}
		}
		return end
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// parseFloat reads what scanFloat found. The only error is that a number is too large.
func parseFloat(s string) (float32, error) {
	if i := strings.IndexAny(s, "nN"); i >= 0 {
		if s[i]|0x20 == 'n' && i+1 < len(s) && s[i+1]|0x20 == 'a' {
			return float32(math.NaN()), nil
		}
		return float32(math.Inf(1)), nil
	}
	if strings.ContainsAny(s, "xX") && !strings.ContainsAny(s, "pP") {
		s += "p0"
	}
	x, err := strconv.ParseFloat(s, 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		// The scanner lets nothing else through.
		return float32(math.NaN()), nil
	}
	return float32(x), err
}

// Append writes the text form, with the fewest digits that read back, as PostgreSQL prints float4.
func Append(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat4(b, x)
	}
	return append(b, ']')
}

// Format is Append as a string.
func Format(v []float32) string { return string(Append(make([]byte, 0, 8*len(v)+2), v)) }

// appendFloat4 writes plain digits for decimal exponents from -4 to 5 and scientific ones outside, as float4 prints in
// PostgreSQL: 0.0001 and 1e-05, 999999 and 1e+06.
func appendFloat4(b []byte, x float32) []byte {
	a := math.Abs(float64(x))
	if a == 0 || a >= 1e-3 && a < 9e5 { // surely plain
		return strconv.AppendFloat(b, float64(x), 'f', -1, 32)
	}
	start := len(b)
	b = strconv.AppendFloat(b, float64(x), 'e', -1, 32)
	for i := len(b) - 1; i > start; i-- {
		if b[i] != 'e' {
			continue
		}
		if exp, err := strconv.Atoi(string(b[i+1:])); err == nil && exp >= -4 && exp < 6 {
			return strconv.AppendFloat(b[:start], float64(x), 'f', -1, 32)
		}
		break
	}
	return b
}
