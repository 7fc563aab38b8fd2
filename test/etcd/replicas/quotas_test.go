package replicas

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/admission/quota/quotatest"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/client-go/rest"
)

// TestQuotas checks that used amounts of quotas are exact, although several servers write.
func TestQuotas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	var configs []*rest.Config
	for _, s := range c.startServers(t, 3) {
		configs = append(configs, s.config(t))
	}
	quotatest.Exact(t, seeds.Of(t), 3, 40, configs...)
}
