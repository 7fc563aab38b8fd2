package reaper

import (
	"fmt"
	"testing"
)

// BenchmarkCollect measures the time from the deletion of an owner until its dependents are gone.
func BenchmarkCollect(b *testing.B) {
	for _, dependents := range []int{1, 1000} {
		b.Run(fmt.Sprintf("dependents=%d", dependents), func(b *testing.B) {
			s := newServer(b)
			st := s.store.State()
			for b.Loop() {
				b.StopTimer()
				s.createLine([]string{"n/owner"})
				for i := range dependents {
					s.createLine([]string{fmt.Sprintf("n/%d", i), "owner=n/owner"})
				}
				b.StartTimer()
				if err := s.delete(s.items, "n", "owner", ""); err != nil {
					b.Fatal(err)
				}
				for {
					_, changed := st.Changed()
					if st.Count(s.items.GroupResource()) == 0 {
						break
					}
					<-changed
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*dependents), "us/dependent")
		})
	}
}
