package open

import (
	"context"
	"net/netip"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/scheduler"
)
