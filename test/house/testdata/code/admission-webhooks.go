package open

import (
	"context"
	"net/http"

	"github.com/kapok-dev/kapok"
)

var (
	ctx   context.Context
	hooks http.Handler
)
