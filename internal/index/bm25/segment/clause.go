package segment

import (
	"math"

	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// clause is a clause at work.
type clause struct {
	list     *list
	ord      int // in the query
	field    int
	lens     []byte
	inv      *[256]float32
	weight   float32
	repeat   float64
	maxFreq  uint32  // of the field
	ratio    float64 // by how much inv is greater than when the worths were computed, at most
	greatest float64 // inv

	ready uint32      // frequencies whose scores are in the table
	table *scoreTable // by frequency, less one, and length byte; nil until a long list needs it

	// scores are those of the block at work: of all rows in a small list, else of those asked for last.
	small  bool // a list of one decoded block, whose scores are known
	scores [smallDocs]float32
	picked [smallDocs]uint8
	next   int // of a small list: the first row not behind; of others: the block not behind

	most      float64 // of the window
	boundAt   int     // block whose bound is known
	boundMost float64
}

const tableFreqs = 4

type scoreTable [tableFreqs][256]float32

// boundSlack is what rounding in float32 may add to the part of the weight that is reached.
const boundSlack = 1.0 / (1 << 20)

// The number of postings from which on scores of one frequency, and of all in the table, are computed beforehand.
const (
	tableFrom = 256
	tableAll  = 4096
)

// prepare makes a clause ready. Rows of a list that a segment with right checksums has are below the number of lengths.
func (c *clause) prepare(l *list, weight float32, repeat int, longest byte) {
	c.list, c.weight, c.repeat, c.next, c.boundAt, c.ready = l, weight, float64(repeat), 0, -1, 0
	if c.small = l.lasts == nil; c.small {
		for i, r := range l.row[:l.count] {
			c.scores[i] = c.score(l.freq[i], r)
		}
		return
	}
	switch n := l.term.DocFreq; {
	case n >= tableAll:
		c.ready = tableFreqs
	case n >= tableFrom:
		c.ready = 1
	}
	if c.ready > 0 && c.table == nil {
		c.table = new(scoreTable)
	}
	for f := range c.ready {
		t := &c.table[f]
		for b := range int(longest) + 1 {
			t[b] = similarity.Score(weight, float32(f+1), c.inv[b])
		}
	}
}

// ratio is by how much inv is greater than at the build, over the lengths that there are, and the greatest inv of them.
func (f *fieldReader) ratio(inv *[256]float32) (most, greatest float64) {
	for b := 1; b <= int(f.MaxLength); b++ {
		most = max(most, float64(inv[b])/float64(f.norms[b]))
		greatest = max(greatest, float64(inv[b]))
	}
	if math.IsNaN(most) || math.IsInf(most, 0) {
		most = math.MaxFloat32
	}
	return most, greatest
}

// bound is the most that a posting of a block of this worth adds. Where inv is at most ratio times what it was, freq·inv is
// too, and x/(1+x) of the product is what is reached at most.
func (c *clause) bound(worth uint16) float64 {
	t := 1.0
	if worth < math.MaxUint16 {
		t = float64(worth) / math.MaxUint16
		if c.ratio != 1 {
			t = t * c.ratio / (1 - t + t*c.ratio)
		}
	}
	return float64(c.weight) * (t + boundSlack) * c.repeat
}

// boundHere is the bound of the block at work.
func (c *clause) boundHere() float64 {
	if c.small {
		return float64(c.weight) * c.repeat
	}
	if l := c.list; l.at != c.boundAt {
		c.boundAt, c.boundMost = l.at, c.bound(l.worthOf(l.at))
	}
	return c.boundMost
}

// score is that of a row of the list.
func (c *clause) score(freq, row uint32) float32 {
	b := c.lens[row]
	if f := freq - 1; f < c.ready {
		return c.table[f&(tableFreqs-1)][b]
	}
	return similarity.Score(c.weight, float32(freq), c.inv[b])
}

// scoreBlock computes the scores of the rows from from to to of the block at work, whose rows are decoded.
func (c *clause) scoreBlock(from, to int) {
	l, lens, out := c.list, c.lens, &c.scores
	switch {
	case c.small:
	case l.freqWidth == 0 && c.ready > 0:
		t := &c.table[0]
		for j := from; j < to; j++ {
			out[j&127] = t[lens[l.row[j&127]]]
		}
	default:
		l.decodeFreqs()
		ready, table := c.ready, c.table
		for j := from; j < to; j++ {
			b := lens[l.row[j&127]]
			if f := l.freq[j&127] - 1; f < ready {
				out[j&127] = table[f&(tableFreqs-1)][b]
			} else {
				out[j&127] = similarity.Score(c.weight, float32(l.freq[j&127]), c.inv[b])
			}
		}
	}
}

// cut is a score of the clause that is below all those that with rest more exceed a bound.
func (c *clause) cut(bound float32, rest float64) float32 {
	v := (float64(bound) - rest) / c.repeat
	return float32(v - (math.Abs(float64(bound))/c.repeat+math.Abs(v))*boundSlack)
}

// above finds the rows from from to to of the block at work that score more than cut: their places are in picked, their scores in
// scores.
func (c *clause) above(from, to int, cut float32) (n int) {
	l, lens := c.list, c.lens
	switch {
	case c.small:
		for j := from; j < to; j++ {
			if c.scores[j&127] > cut {
				c.picked[n&127] = uint8(j)
				n++
			}
		}
	case l.freqWidth == 0 && c.ready > 0:
		t := &c.table[0]
		for j := from; j < to; j++ {
			if v := t[lens[l.row[j&127]]]; v > cut {
				c.scores[j&127], c.picked[n&127] = v, uint8(j)
				n++
			}
		}
	default:
		l.decodeFreqs()
		ready, table := c.ready, c.table
		for j := from; j < to; j++ {
			b := lens[l.row[j&127]]
			var v float32
			if f := l.freq[j&127] - 1; f < ready {
				v = table[f&(tableFreqs-1)][b]
			} else {
				v = similarity.Score(c.weight, float32(l.freq[j&127]), c.inv[b])
			}
			if v > cut {
				c.scores[j&127], c.picked[n&127] = v, uint8(j)
				n++
			}
		}
	}
	return n
}

// at is how often the term stands in a row; 0 where it does not. Rows ascend from call to call.
func (c *clause) at(r uint32) (uint32, error) {
	l := c.list
	if ok, err := l.seek(r); !ok {
		return 0, err
	}
	i, ok, err := l.index(r)
	if !ok {
		return 0, err
	}
	return l.freqAt(i), nil
}

// open decodes the rows of block i of a list that is not small.
func (c *clause) open(i int) error {
	l := c.list
	if l.at == i && l.hasRows {
		return nil
	}
	if err := l.load(i); err != nil {
		return err
	}
	return l.decodeRows()
}

// floorRows is for how many rows at most a floor is looked for.
const floorRows = 64

// floorBlocks is in how many blocks one is looked for at most.
const floorBlocks = 4

// reached gives a score that at least k rows of the list have, 1 to floorRows: the k-th best in so many blocks that are worth most. It
// is negative when none is known.
func (c *clause) reached(k, most int) (v float32, err error) {
	l := c.list
	if l.term.DocFreq < int64(k) {
		return -1, nil
	}
	var best [floorRows]float32 // descending
	n := 0
	take := func() {
		for _, v := range c.scores[:l.count] {
			if n == k && v <= best[k-1] {
				continue
			}
			i := min(n, k-1)
			for ; i > 0 && best[i-1] < v; i-- {
				best[i] = best[i-1]
			}
			best[i] = v
			n = min(n+1, k)
		}
	}
	if c.small {
		take()
	} else {
		var blocks [floorBlocks]int // by worth, descending
		var worths [floorBlocks]uint16
		m := min(l.n, most, floorBlocks)
		have := 0
		for i := range l.n {
			w := l.worthOf(i)
			if have == m && w <= worths[m-1] {
				continue
			}
			at := min(have, m-1)
			for ; at > 0 && worths[at-1] < w; at-- {
				blocks[at], worths[at] = blocks[at-1], worths[at-1]
			}
			blocks[at], worths[at] = i, w
			have = min(have+1, m)
		}
		for i, at := range blocks[:m] {
			if n == k && float32(c.bound(worths[i])/c.repeat) <= best[k-1] {
				break
			}
			if err := c.open(at); err != nil {
				return 0, err
			}
			c.scoreBlock(0, l.count)
			take()
		}
		if err := l.load(0); err != nil {
			return 0, err
		}
	}
	if n < k {
		return -1, nil
	}
	return float32(float64(best[k-1]) * c.repeat), nil
}

// add adds a score as often as it counts, one after another as the scan does.
func (c *clause) add(sum float64, score float32) float64 {
	for range int(c.repeat) {
		sum += float64(score)
	}
	return sum
}
