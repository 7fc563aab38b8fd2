package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
)

// thousands returns n objects of 1 KB that compress like configuration: keys repeat, and a part of
// the values does not.
func thousands(b *testing.B, n int) []*object.Object {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]*object.Object, n)
	for i := range all {
		data := make([]byte, 0, 900)
		for len(data) < 860 {
			data = fmt.Appendf(data, "setting-%d: %08x; ", len(data), r.Uint32())
		}
		key := object.Key{Resource: widgets, Namespace: fmt.Sprintf("ns-%03d", i/1000), Name: fmt.Sprintf("object-%06d", i)}
		all[i] = newObject(b, key, object.Revision(i+1), string(data))
	}
	return all
}

func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		objects := thousands(b, n)
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var size counter
			for b.Loop() {
				size = 0
				if err := Write(&size, Header{Revision: object.Revision(n)}, slices.Values(objects)); err != nil {
					b.Fatal(err)
				}
			}
			raw := 0
			for _, o := range objects {
				raw += len(o.Raw)
			}
			b.SetBytes(int64(raw))
			b.ReportMetric(float64(size)/float64(raw), "ratio")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const n = 100_000
	var file bytes.Buffer
	if err := Write(&file, Header{Revision: n}, slices.Values(thousands(b, n))); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := Open(bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range r.Objects() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
