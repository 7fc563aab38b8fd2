package pebble

import (
	"bytes"
	"errors"
	"runtime"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
)

// pipeline decodes records on all processors and passes the entries on in the order of the records.
// It owns its goroutines; they have ended when each returns.
type pipeline struct {
	order   chan *chunk   // as they came; closed when there are no more
	work    chan *chunk   // the same, for the decoders
	stop    chan struct{} // closed when no more chunks are wanted
	err     error         // of the source; set before order is closed
	running sync.WaitGroup
}

// chunk is a sequence of records. The goroutine that has received it from a channel owns it.
type chunk struct {
	names   []byte // that the records point to; their objects have bytes of their own
	records []record
	size    int // of objects
	entries []journal.Entry
	err     error
	done    chan struct{} // closed when entries or err are set
}

const (
	chunkBytes   = 256 << 10 // of objects
	chunkRecords = 512
)

var errStopped = errors.New("the reader of records has stopped")

// startPipeline starts to decode what source puts.
func startPipeline(sealer journal.Sealer, source func(put func(*record) error) error) *pipeline {
	workers := runtime.GOMAXPROCS(0)
	p := &pipeline{
		order: make(chan *chunk, 2*workers),
		work:  make(chan *chunk, 2*workers),
		stop:  make(chan struct{}),
	}
	for range workers {
		p.running.Go(func() {
			decode := decoder{sealer: sealer}
			for c := range p.work {
				c.decode(&decode)
			}
		})
	}
	p.running.Go(func() {
		defer close(p.order)
		defer close(p.work)
		open := newChunk()
		err := source(func(r *record) error {
			if !open.fits(r) {
				if err := p.send(open); err != nil {
					return err
				}
				open = newChunk()
			}
			open.add(r)
			return nil
		})
		p.err = errors.Join(p.send(open), err)
	})
	return p
}

func (p *pipeline) send(c *chunk) error {
	select {
	case p.order <- c:
		p.work <- c
		return nil
	case <-p.stop:
		return errStopped
	}
}

// each calls take with every entry, and returns the first error of source or of decoding.
func (p *pipeline) each(take func(journal.Entry)) (err error) {
	for c := range p.order {
		if err != nil {
			continue // the source is about to notice
		}
		<-c.done
		for i := range c.entries {
			take(c.entries[i])
		}
		if err = c.err; err != nil {
			close(p.stop)
		}
	}
	p.running.Wait()
	if err == nil {
		err = p.err
	}
	return err
}

func newChunk() *chunk { return &chunk{done: make(chan struct{})} }

// fits reports whether a chunk has space for a record. An empty chunk always does.
func (c *chunk) fits(r *record) bool {
	return len(c.records) == 0 || len(c.records) < chunkRecords && c.size+len(r.raw) <= chunkBytes
}

// add copies a record.
func (c *chunk) add(r *record) {
	at := len(c.names)
	c.names = append(append(c.names, r.namespace...), r.name...)
	copied := *r
	copied.namespace = c.names[at : at+len(r.namespace)]
	copied.name = c.names[at+len(r.namespace):]
	copied.raw = bytes.Clone(r.raw)
	c.records = append(c.records, copied)
	c.size += len(r.raw)
}

func (c *chunk) decode(d *decoder) {
	defer close(c.done)
	c.entries = make([]journal.Entry, 0, len(c.records))
	for i := range c.records {
		e, err := d.entry(&c.records[i])
		if err != nil {
			c.err = err
			return
		}
		c.entries = append(c.entries, e)
	}
	c.names, c.records = nil, nil
}
