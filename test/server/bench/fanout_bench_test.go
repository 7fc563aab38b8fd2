//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// BenchmarkFanOut changes an object while many clients watch it, each over its own connection. An
// operation is one change; it ends when all have received it.
func BenchmarkFanOut(b *testing.B) {
	const watchers = 200
	b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
		p := launch(b, b.TempDir(), true)
		defer p.stop()
		t := newTarget(b, p.config, p.cpu)
		t.fill(b, 1)
		ctx, cancel := context.WithCancel(b.Context())
		var (
			group sync.WaitGroup
			told  = make(chan int, watchers) // number of lines that a watcher has read
		)
		defer group.Wait()
		defer cancel()
		for range watchers {
			config := rest.CopyConfig(p.config)
			config.Dial = (&net.Dialer{}).DialContext // prevents client-go from sharing connections
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				b.Fatal(err)
			}
			r, err := http.NewRequestWithContext(ctx, "GET", config.Host+widgetPath+"?watch=true&resourceVersion=0", nil)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			group.Go(func() {
				defer resp.Body.Close()
				for buffer := make([]byte, 32<<10); ; {
					n, err := resp.Body.Read(buffer)
					if lines := bytes.Count(buffer[:n], []byte{'\n'}); lines > 0 {
						told <- lines
					}
					if err != nil {
						return
					}
				}
			})
		}
		await := func(lines int) {
			for lines > 0 {
				lines -= <-told
			}
		}
		await(watchers) // each receives the existing object
		changes := 0
		b.Run("changes", func(b *testing.B) {
			t.measure(b, 1, func(int) error {
				changes++
				if err := t.patch(asMerge, 0, 1+changes); err != nil {
					return err
				}
				await(watchers)
				return nil
			})
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*watchers), "us/event")
		})
		b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB")
	})
}
