package workqueue

// A list holds entries in the order in which they came. An entry is in one list at a time: those that are ready in that of
// their group, those that workers have in another, those that are kept for later in a third.
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
