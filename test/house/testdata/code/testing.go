package open

import (
	"context"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	ctrl "github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/kapoktest/outage"
	"github.com/kapok-dev/kapok/manager/metricsserver"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"
	v1 "github.com/kapok-dev/kapok/test/house/testdata/code/v1"
	"github.com/kapok-dev/kapok/webhook"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// The packages of the reader.
var (
	controller struct {
		Run func(context.Context, *rest.Config) error
	}
	webhookv1 struct {
		SetupCronJobWebhookWithManager func(ctrl.Manager) error
	}
)

var (
	t        *testing.T
	env      *kapoktest.Env
	scheme   *runtime.Scheme
	cronJob  *batchv1.CronJob
	web      *appsv1.Deployment
	foo      *v1.Foo
	scenario func(testing.TB, *kapoktest.Env)
)

var (
	_ client.Object
	_ = controllers.Names
	_ corev1.Pod
	_ kapok.Together
	_ outage.PodSet
	_ scheduler.Options
	_ simulated.Options
)
