package open

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/process"
	"github.com/kapok-dev/kapok/scheduler"

	"k8s.io/apimachinery/pkg/runtime/schema"
)
