package shards_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/kapok-dev/kapok/manager/shards"

	"k8s.io/client-go/tools/clientcmd"
)

// asMember is the environment variable with the identity of a member. A test binary that is started
// with it is that member, on the server of the kubeconfig in KUBECONFIG.
const asMember = "KAPOK_SHARDS_MEMBER"

// runMember runs this process as a member if it was started to be one, and does not return then.
func runMember() {
	name := os.Getenv(asMember)
	if name == "" {
		return
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err == nil {
		cfg.QPS = -1
		rest := func() time.Duration { return time.Duration(rand.IntN(100)) * time.Millisecond }
		err = shards.Run(context.Background(), cfg, options(name), work(name, rest))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
