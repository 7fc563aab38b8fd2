package turns

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// TestTurns checks that no more goroutines have a turn than there are, and that all get one in the
// order of arrival.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perProcessor, waiting = 2, 50
		turns := New(perProcessor)
		most := perProcessor * runtime.GOMAXPROCS(0)
		for range most {
			turns.Take()
		}
		got := make(chan int, waiting)
		for i := range waiting {
			go func() {
				turns.Take()
				got <- i
			}()
			synctest.Wait()
		}
		for want := range waiting {
			select {
			case i := <-got:
				t.Fatalf("%d got a turn, but all %d were taken", i, most)
			default:
			}
			turns.Give()
			synctest.Wait()
			if i := <-got; i != want {
				t.Fatalf("%d got a turn before %d", i, want)
			}
		}
	})
}
