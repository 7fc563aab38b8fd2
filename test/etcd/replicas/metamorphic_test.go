package replicas

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/metamorphic"
)

// TestMetamorphic checks that a server on etcd responds like one in memory, with faults between the
// requests.
func TestMetamorphic(t *testing.T) {
	c := startCluster(t, 1)
	config := metamorphic.Config{Configurations: []metamorphic.Configuration{
		{Name: "memory"},
		{Name: "etcd", Options: kapok.Options{Store: "etcd://" + c.address(0)}},
	}}
	if *long {
		config.Runs, config.Operations = 20, 300
	}
	metamorphic.Run(t, config)
}
