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

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/fairness"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BenchmarkModest measures a small get of one user while another user keeps 1,000 lists of 1,000
// objects under way, and without these.
func BenchmarkModest(b *testing.B) {
	for _, lists := range []int{0, 1000} {
		for _, plain := range []bool{false, true} {
			b.Run(fmt.Sprintf("lists=%d/plain=%t", lists, plain), func(b *testing.B) {
				limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: plain}, Size: func(schema.GroupResource) (int, int64) { return 1000, 0 }})
				defer limiter.Close()
				s := newServer(b, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
				for i := range 1000 {
					s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), `,"data":{"a":"`+strings.Repeat("x", 1000)+`"}`))
				}
				ask := func(user, path string) int {
					r := httptest.NewRequestWithContext(b.Context(), "GET", path, nil)
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Impersonate-User", user)
					r.Header.Set("Impersonate-Group", authn.Authenticated)
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
								time.Sleep(100 * time.Millisecond) // shorter than Retry-After
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

// nowhere is a client that discards the response.
type nowhere struct {
	header http.Header
	code   int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(code int)        { w.code = code }
