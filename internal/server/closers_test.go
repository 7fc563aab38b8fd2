package server

import (
	"errors"
	"slices"
	"testing"
)

func TestClosers(t *testing.T) {
	var (
		c         closers
		got       []string
		one, four = errors.New("one"), errors.New("four")
	)
	c.add(func() error { got = append(got, "1"); return one })
	c.do(func() { got = append(got, "2") })
	c.add(func() error { got = append(got, "3"); return nil })
	c.add(func() error { got = append(got, "4"); return four })
	err := c.close()
	if want := []string{"4", "3", "2", "1"}; !slices.Equal(got, want) {
		t.Errorf("closed in the order %v, want %v", got, want)
	}
	if !errors.Is(err, one) || !errors.Is(err, four) || err.Error() != "four\none" {
		t.Errorf("close returned %q, want both errors in the order of closing", err)
	}
	if err := c.close(); err != nil || len(got) != 4 {
		t.Errorf("a second close returned %v and called %d functions, want neither", err, len(got)-4)
	}
}
