package cache_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/overlakedb/overlake/internal/cache"
)

func TestTheOldestGoes(t *testing.T) {
	c := cache.New(10_000)
	for i := range 100 {
		c.Put(strconv.Itoa(i), i, 1000)
		if _, ok := c.Get("0"); !ok {
			t.Fatalf("0 is gone after %d, though it was used last", i)
		}
	}
	if _, ok := c.Get("1"); ok || c.Bytes() > 10_000 {
		t.Errorf("1 is still there, %d bytes are held", c.Bytes())
	}
	if v, ok := c.Get("99"); !ok || v != 99 {
		t.Errorf("99 is %v", v)
	}
	c.Put("99", "other", 10)
	if v, _ := c.Get("99"); v != "other" {
		t.Errorf("99 is %v", v)
	}
	before := c.Bytes()
	c.Delete("99")
	c.Delete("99")
	if _, ok := c.Get("99"); ok || c.Bytes() >= before {
		t.Error("99 is not deleted")
	}
	if c.Put("large", 1, 5000); c.Bytes() > 10_000 {
		t.Error("a value of half the cache was kept")
	}
	if _, ok := c.Get("large"); ok {
		t.Error("a value of half the cache was kept")
	}
}

func TestAWholeCacheHoldsOne(t *testing.T) {
	c := cache.NewWhole(10_000)
	c.Put("small", 1, 1000)
	c.Put("large", 2, 9500)
	if v, ok := c.Get("large"); !ok || v != 2 || c.Bytes() > 10_000 {
		t.Errorf("large is %v, %d bytes", v, c.Bytes())
	}
	if _, ok := c.Get("small"); ok {
		t.Error("both have room")
	}
	if c.Put("larger", 3, 10_000); c.Bytes() > 10_000 {
		t.Errorf("%d bytes", c.Bytes())
	}
	if _, ok := c.Get("large"); !ok {
		t.Error("what has no room pushed out what has")
	}
	by := cache.NewBy[[2]int](10_000)
	by.Put([2]int{1, 2}, "a", 100)
	if v, ok := by.Get([2]int{1, 2}); !ok || v != "a" {
		t.Errorf("%v by numbers", v)
	}
}

func TestOrMakesOnceAndKeepsNoFailure(t *testing.T) {
	c := cache.New(1 << 20)
	failed := errors.New("failed")
	if _, err := cache.Or(c, "k", func() (int, int64, error) { return 0, 0, failed }); err != failed {
		t.Fatal(err)
	}
	made := 0
	for range 3 {
		v, err := cache.Or(c, "k", func() (int, int64, error) { made++; return 7, 8, nil })
		if v != 7 || err != nil {
			t.Fatal(v, err)
		}
	}
	if made != 1 {
		t.Errorf("the value was made %d times", made)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 1000 {
				c.Put(strconv.Itoa((k*7+i)%100), k, 20_000)
				c.Get(strconv.Itoa(k % 100))
				c.Delete(strconv.Itoa(k % 13))
			}
		})
	}
	wg.Wait()
	if c.Bytes() > 1<<20 {
		t.Errorf("%d bytes are held", c.Bytes())
	}
}

func TestClear(t *testing.T) {
	c := cache.New(1 << 20)
	for i := range 10 {
		c.Put(strconv.Itoa(i), i, 1000)
	}
	c.Clear()
	if _, ok := c.Get("3"); ok || c.Bytes() != 0 {
		t.Errorf("something is left, %d bytes", c.Bytes())
	}
	c.Put("3", 3, 1000)
	if v, ok := c.Get("3"); !ok || v != 3 {
		t.Errorf("it keeps nothing any more: %v", v)
	}
}
