package replicas

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/quota/quotatest"

	"k8s.io/client-go/rest"
)

// TestQuotas: what is used is what there is, although servers that do not know of each other write.
func TestQuotas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	var configs []*rest.Config
	for _, s := range c.startServers(t, 3) {
		configs = append(configs, s.config(t))
	}
	begin := uint64(time.Now().UnixNano())
	if *seed != 0 {
		begin = *seed
	}
	quotatest.Exact(t, begin, 3, 40, configs...)
}
