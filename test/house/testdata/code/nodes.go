package open

import (
	"net/http"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/node/stages"
	"github.com/kapok-dev/kapok/scheduler"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deployment *appsv1.Deployment
