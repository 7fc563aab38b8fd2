package open

import (
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"
)
