package cache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

const (
	// The first dictionary is made of firstSamples objects, and a better one whenever there were
	// moreSamples times as many.
	firstSamples = 64
	moreSamples  = 16
	// A dictionary has parts of so many objects, of so many bytes each.
	sampleCount = 8
	sampleSize  = s2.MaxDictSize / sampleCount
)

// A packer compresses the objects of a kind. They are similar, so that most of each can be encoded
// as references to a dictionary made of a few of them: an S2 block with a dictionary
// (github.com/klauspost/compress/s2), which is decompressed at gigabytes a second. The zero packer
// is ready to use, and safe for concurrent use.
type packer struct {
	dictionary atomic.Pointer[s2.Dict] // the newest; nil: none yet
	buffers    sync.Pool               // of *[]byte

	mu struct {
		sync.Mutex
		seen, next int
		samples    [][]byte
	}
}

// packed are the bytes of an object, in memory of their own.
type packed struct {
	data       []byte
	dictionary *s2.Dict // nil: they are not packed
}

func (p *packer) pack(b []byte) packed {
	p.learn(b)
	if d := p.dictionary.Load(); d != nil {
		buffer := p.buffer(s2.MaxEncodedLen(len(b)))
		defer p.buffers.Put(buffer)
		if small := d.Encode(*buffer, b); len(small) < len(b) {
			return packed{slices.Clone(small), d}
		}
	}
	return packed{data: append(make([]byte, 0, len(b)), b...)}
}

// learn samples some of the objects.
func (p *packer) learn(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next == 0 {
		p.mu.next = firstSamples
	}
	p.mu.seen++
	if p.mu.seen%(p.mu.next/sampleCount) == 0 {
		p.mu.samples = append(p.mu.samples, slices.Clone(b[:min(len(b), sampleSize)]))
	}
	if p.mu.seen < p.mu.next {
		return
	}
	p.mu.next *= moreSamples
	if d := s2.MakeDict(slices.Concat(p.mu.samples...), nil); d != nil {
		p.dictionary.Store(d)
	}
	p.mu.samples = nil
}

// unpack calls f with the bytes, which are valid until it returns.
func (p *packer) unpack(o packed, f func([]byte) error) error {
	if o.dictionary == nil {
		return f(o.data)
	}
	size, err := s2.DecodedLen(o.data)
	if err != nil {
		return err
	}
	buffer := p.buffer(size)
	defer p.buffers.Put(buffer)
	b, err := o.dictionary.Decode((*buffer)[:size], o.data)
	if err != nil {
		return err
	}
	return f(b)
}

func (p *packer) buffer(size int) *[]byte {
	b, _ := p.buffers.Get().(*[]byte)
	if b == nil || cap(*b) < size {
		b = new(make([]byte, max(size, 4<<10)))
	}
	*b = (*b)[:cap(*b)]
	return b
}
