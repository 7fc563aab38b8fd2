package endpoint

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/fairness"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BenchmarkModest is a small get of one user while another one sends 1,000 lists of 1,000 objects at a time, all the time; and
// while he does not.
func BenchmarkModest(b *testing.B) {
	for _, lists := range []int{0, 1000} {
		for _, plain := range []bool{false, true} {
			b.Run(fmt.Sprintf("lists=%d/plain=%t", lists, plain), func(b *testing.B) {
				limiter := fairness.New(fairness.Options{Plain: plain, Count: func(schema.GroupResource) int { return 1000 }})
				defer limiter.Close()
				s := newServer(b, func(o *Options) { o.Limiter, o.Authorizer = limiter, anybody{} })
				for i := range 1000 {
					s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), `,"data":{"a":"`+strings.Repeat("x", 1000)+`"}`))
				}
				ask := func(user, path string) int {
					r := httptest.NewRequestWithContext(b.Context(), "GET", path, nil)
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Impersonate-User", user)
					r.Header.Set("Impersonate-Group", auth.Authenticated)
					w := &nowhere{header: http.Header{}}
					s.ServeHTTP(w, r)
					return w.code
				}
				stop := make(chan struct{})
				var greedy sync.WaitGroup
				for range lists {
					greedy.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							if ask("greedy", configMapPath) != 200 {
								time.Sleep(100 * time.Millisecond) // more eager than he is told to be
							}
						}
					})
				}
				var took []time.Duration
				refused := 0
				for b.Loop() {
					begin := time.Now()
					if ask("modest", configMapPath+"/c7") != 200 {
						refused++
					}
					took = append(took, time.Since(begin))
				}
				close(stop)
				greedy.Wait()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
				b.ReportMetric(float64(refused)/float64(len(took)), "refused")
			})
		}
	}
}

// nowhere is where answers go that nobody reads.
type nowhere struct {
	header http.Header
	code   int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(code int)        { w.code = code }
