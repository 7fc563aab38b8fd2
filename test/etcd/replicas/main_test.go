package replicas

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "linearizability for five minutes, and the commands of docs/replicas.md")

// TestMain also fails if a server has left a goroutine behind, as all are stopped by then.
// Goroutines of etcd do not count.
func TestMain(m *testing.M) {
	code := m.Run()
	left := leftovers()
	for begin := time.Now(); len(left) > 0 && time.Since(begin) < 10*time.Second; left = leftovers() {
		<-time.After(10 * time.Millisecond)
	}
	if len(left) > 0 {
		fmt.Printf("%d goroutines of servers are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = max(code, 1)
	}
	os.Exit(code)
}

// leftovers returns the goroutines of servers.
func leftovers() (left []string) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "github.com/kapok-dev/kapok/internal/") || strings.Contains(stack, "github.com/kapok-dev/kapok.") {
			left = append(left, stack)
		}
	}
	return left
}
