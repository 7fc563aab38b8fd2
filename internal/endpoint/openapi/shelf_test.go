package openapi

import (
	"errors"
	"testing"
)

func TestShelf(t *testing.T) {
	s := newShelf(10)
	made := ""
	get := func(name, hash string, size int) {
		t.Helper()
		content, err := s.get(name, hash, func() ([]byte, error) {
			made += name + hash + " "
			return make([]byte, size), nil
		})
		if err != nil || len(content) != size {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
	get("a", "1", 4)
	get("b", "1", 4)
	get("a", "1", 4) // is there, and b is now the older one
	get("c", "1", 4) // pushes b out
	get("a", "1", 4)
	get("b", "1", 4) // pushes c out
	get("a", "2", 6) // another edition
	get("b", "1", 4)
	get("d", "1", 11) // is larger than the shelf
	get("d", "1", 11)
	get("b", "1", 4)
	if want := "a1 b1 c1 b1 a2 d1 d1 "; made != want {
		t.Errorf("made %swant %s", made, want)
	}
	if s.room != 0 || s.order.Len() != 2 || len(s.byName) != 2 {
		t.Errorf("room %d, %d and %d books", s.room, s.order.Len(), len(s.byName))
	}
	if _, err := s.get("e", "1", func() ([]byte, error) { return nil, errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
	if _, ok := s.find("e", "1"); ok {
		t.Error("what could not be made is kept")
	}
}
