package open

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/manager/cluster"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)
