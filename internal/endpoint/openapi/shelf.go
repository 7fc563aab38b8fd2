package openapi

import (
	"container/list"
	"sync"
)

// shelf is a cache of documents by name with a limit on their size. The least recently used are
// dropped first.
type shelf struct {
	size   int
	mu     sync.Mutex
	room   int
	byName map[string]*list.Element
	order  *list.List // most recently used first
}

type book struct {
	name, hash string
	content    []byte
}

func newShelf(size int) *shelf {
	return &shelf{size: size, room: size, byName: map[string]*list.Element{}, order: list.New()}
}

func (s *shelf) find(name, hash string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.byName[name]
	if element == nil || element.Value.(*book).hash != hash {
		return nil, false
	}
	s.order.MoveToFront(element)
	return element.Value.(*book).content, true
}

// get returns the document. It is made if the shelf does not have it in this edition.
func (s *shelf) get(name, hash string, make func() ([]byte, error)) ([]byte, error) {
	if content, ok := s.find(name, hash); ok {
		return content, nil
	}
	content, err := make()
	if err != nil {
		return nil, err
	}
	s.put(&book{name, hash, content})
	return content, nil
}

func (s *shelf) put(b *book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.byName[b.name])
	if len(b.content) > s.size {
		return
	}
	s.byName[b.name] = s.order.PushFront(b)
	s.room -= len(b.content)
	for s.room < 0 {
		s.remove(s.order.Back())
	}
}

func (s *shelf) remove(element *list.Element) {
	if element == nil {
		return
	}
	old := s.order.Remove(element).(*book)
	delete(s.byName, old.name)
	s.room += len(old.content)
}
