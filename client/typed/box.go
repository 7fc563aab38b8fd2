package typed

import "unsafe"

// An encoder puts the strings and lists of one tree into values of type any. An any refers to a
// string, and Go allocates each separately. The encoder allocates several at once. A value that is
// kept after the rest of its tree keeps up to 31 others from being collected.
type encoder struct {
	texts []string
	lists [][]any
	sizes [2]int // of the last allocations
}

// text returns s as an any.
func (e *encoder) text(s string) any {
	var v any = "" // its data is replaced
	if s != "" {
		setData(&v, room(&e.texts, &e.sizes[0], s))
	}
	return v
}

// list returns a list as an any.
func (e *encoder) list(l []any) any {
	var v any = []any(nil)
	setData(&v, room(&e.lists, &e.sizes[1], l))
	return v
}

// room returns the address of a copy of v that is never modified. It allocates 2, 4, ..., 32 values
// at a time.
func room[T any](free *[]T, size *int, v T) unsafe.Pointer {
	if len(*free) == 0 {
		*size = min(max(2, 2**size), 32)
		*free = make([]T, *size)
	}
	at := &(*free)[0]
	*at, *free = v, (*free)[1:]
	return unsafe.Pointer(at)
}

// setData replaces the value in an any by that at p, which has the same type. An any of a type that
// is not a pointer consists of the type and the address of the value.
func setData(v *any, p unsafe.Pointer) {
	(*[2]unsafe.Pointer)(unsafe.Pointer(v))[1] = p
}
