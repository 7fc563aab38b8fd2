package workqueue

// A list holds entries in insertion order. An entry is in one list at a time: a ready entry in the
// list of its group, an entry held by a worker in the list busy, and an entry kept for reuse in the
// list idle.
type list[K comparable] struct {
	first, last *entry[K]
	len         int
}

func (l *list[K]) push(e *entry[K]) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.len++
}

func (l *list[K]) remove(e *entry[K]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.len--
}
