package open

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
)

var (
	ctx    context.Context
	t      *testing.T
	mgr    manager.Manager
	server *kapok.Server
)

var (
	_ = controllers.Names
	_ = kapoktest.Start
	_ cache.Options
	_ = local.Of
)
