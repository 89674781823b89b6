package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// Claims keep several builders from doing the same work. They are no locks: two builders that both think they have one,
// because a clock jumped or a machine slept, do the work twice and publish equal artifacts, of which the later is kept.

const (
	claimTime  = 60 * time.Second // a claim that was not renewed for so long is taken over
	claimRenew = claimTime / 4
)

// claimText is what a claim says.
type claimText struct {
	Owner   string    `json:"owner"`
	Renewed time.Time `json:"renewed"`
}

type claim struct {
	o     *Overlay
	name  string
	owner string
	etag  string
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// claim asks for a group of files; nil when another builder has it.
func (o *Overlay) claim(ctx context.Context, ids []string, g []missingFile) (*claim, error) {
	h := sha256.New()
	for _, id := range ids {
		h.Write([]byte(id + "\x00"))
	}
	for i := range g {
		h.Write([]byte(g[i].key.Path + "\x00" + g[i].key.ETag + "\x00"))
	}
	c := &claim{o: o, name: o.prefix + "/claims/" + hex.EncodeToString(h.Sum(nil)[:16]), owner: uuid.NewString(), stop: make(chan struct{}), done: make(chan struct{})}
	for range 3 {
		info, err := o.set.write.Put(ctx, c.name, c.text(), objstore.Condition{IfAbsent: true})
		if err == nil {
			c.etag = info.ETag
			go c.renew()
			return c, nil
		}
		if !errs.Is(err, errs.Exists) {
			return nil, err
		}
		raw, held, err := objstore.ReadAll(ctx, o.set.store, c.name, 4096)
		if errs.Is(err, errs.NotFound) {
			continue
		}
		if errs.Is(err, errs.Exhausted) { // nothing that a builder wrote
			raw = nil
			held, err = o.set.store.Stat(ctx, c.name)
		}
		if err != nil {
			return nil, err
		}
		var text claimText
		if json.Unmarshal(raw, &text) == nil {
			if age := time.Since(text.Renewed); age < claimTime && age > -claimTime {
				return nil, nil
			}
		}
		info, err = o.set.write.Put(ctx, c.name, c.text(), objstore.Condition{IfMatch: held.ETag})
		if err == nil {
			c.etag = info.ETag
			go c.renew()
			return c, nil
		}
		if !errs.Is(err, errs.Conflict) {
			return nil, err
		}
	}
	return nil, nil
}

func (c *claim) text() []byte {
	raw, err := json.Marshal(claimText{Owner: c.owner, Renewed: time.Now().UTC()})
	if err != nil {
		panic(err) // of a struct of a string and a time
	}
	return raw
}

// renew keeps the claim until it is released. A claim that another took is let go.
func (c *claim) renew() {
	defer close(c.done)
	tick := time.NewTicker(claimRenew)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		info, err := c.o.set.write.Put(context.Background(), c.name, c.text(), objstore.Condition{IfMatch: c.etag})
		if errs.Is(err, errs.Conflict) {
			c.etag = ""
			return
		}
		if err == nil {
			c.etag = info.ETag
		}
	}
}

// release gives the claim back. It may be called twice.
func (c *claim) release() {
	c.once.Do(func() {
		close(c.stop)
		<-c.done
		if c.etag != "" {
			// Between the last renewal and here another could only have it after claimTime; then this takes its claim
			// away, which costs double work at worst.
			_ = c.o.set.write.Delete(context.Background(), c.name)
		}
	})
}
