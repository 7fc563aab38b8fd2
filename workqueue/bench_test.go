package workqueue_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/workqueue"

	clientgo "k8s.io/client-go/util/workqueue"
)

// implementations are the queue and client-go's.
var implementations = []struct {
	name string
	make func() clientgo.TypedRateLimitingInterface[string]
}{
	{"kapok", func() clientgo.TypedRateLimitingInterface[string] {
		return workqueue.New(workqueue.Options[string]{})
	}},
	{"client-go", func() clientgo.TypedRateLimitingInterface[string] {
		return clientgo.NewTypedRateLimitingQueue(clientgo.DefaultTypedControllerRateLimiter[string]())
	}},
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "namespace-" + strconv.Itoa(i%10) + "/name-" + strconv.Itoa(i)
	}
	return keys
}

// BenchmarkBurst adds 1,000 keys, and takes them out again: the time is that of one key.
func BenchmarkBurst(b *testing.B) {
	keys := benchKeys(1000)
	for _, i := range implementations {
		b.Run(i.name, func(b *testing.B) {
			q := i.make()
			defer q.ShutDown()
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(keys) {
				for _, key := range keys {
					q.Add(key)
				}
				for range keys {
					key, _ := q.Get()
					q.Done(key)
				}
			}
		})
	}
}

// BenchmarkWorkers has two goroutines add and two work at a time: the time is that of one key that
// is added.
func BenchmarkWorkers(b *testing.B) {
	keys := benchKeys(1000)
	for _, i := range implementations {
		b.Run(i.name, func(b *testing.B) {
			q := i.make()
			var adders, workers sync.WaitGroup
			for range 2 {
				workers.Go(func() {
					for {
						key, shutdown := q.Get()
						if shutdown {
							return
						}
						q.Done(key)
					}
				})
			}
			b.ReportAllocs()
			for a := range 2 {
				adders.Go(func() {
					for n := a; n < b.N; n += 2 {
						q.Add(keys[n%len(keys)])
					}
				})
			}
			adders.Wait()
			q.ShutDown()
			workers.Wait()
		})
	}
}

// BenchmarkDelayed adds keys that are to wait.
func BenchmarkDelayed(b *testing.B) {
	keys := benchKeys(1000)
	for _, i := range implementations {
		b.Run(i.name, func(b *testing.B) {
			q := i.make()
			defer q.ShutDown()
			b.ReportAllocs()
			for n := 0; n < b.N; n++ {
				q.AddAfter(keys[n%len(keys)], 1<<40)
			}
		})
	}
}
