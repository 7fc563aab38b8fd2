package open

import (
	"context"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

var (
	_ corev1.Pod
	_ framework.Plugin
	_ runtime.RawExtension
)
