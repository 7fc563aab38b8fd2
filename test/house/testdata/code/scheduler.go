package open

import (
	"context"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"

	"k8s.io/client-go/rest"
)
