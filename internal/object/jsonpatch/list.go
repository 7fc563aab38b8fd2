package jsonpatch

import "slices"

// A list keeps its items in blocks of at most maxBlock, so that an insertion moves the items of one
// block and not all items behind it.
type list struct {
	blocks [][]*node // none of them empty
	length int
}

const maxBlock = 1024

// find returns the block of item i and the offset of the item in it. For i equal to the length of
// the list it returns the last block and its end.
func (l *list) find(i int) (block, offset int) {
	last := len(l.blocks) - 1
	if begin := l.length - len(l.blocks[last]); i >= begin { // lists are usually built from front to end
		return last, i - begin
	}
	for i >= len(l.blocks[block]) {
		i -= len(l.blocks[block])
		block++
	}
	return block, i
}

func (l *list) at(i int) *node {
	block, offset := l.find(i)
	return l.blocks[block][offset]
}

func (l *list) put(i int, n *node) {
	block, offset := l.find(i)
	l.blocks[block][offset] = n
}

func (l *list) insert(i int, n *node) {
	if l.length == 0 {
		l.blocks = [][]*node{nil}
	}
	block, offset := l.find(i)
	if full := l.blocks[block]; len(full) == maxBlock {
		middle := maxBlock / 2
		if offset == maxBlock {
			middle = maxBlock // appended items fill their blocks
		}
		l.blocks = slices.Insert(l.blocks, block+1, slices.Clone(full[middle:]))
		l.blocks[block] = full[:middle]
		if offset >= middle {
			block, offset = block+1, offset-middle
		}
	}
	l.blocks[block] = slices.Insert(l.blocks[block], offset, n)
	l.length++
}

func (l *list) delete(i int) {
	block, offset := l.find(i)
	if l.blocks[block] = slices.Delete(l.blocks[block], offset, offset+1); len(l.blocks[block]) == 0 {
		l.blocks = slices.Delete(l.blocks, block, block+1)
	}
	l.length--
}
