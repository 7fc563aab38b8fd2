package controller_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A copier keeps a Secret like each ConfigMap.
type copier struct {
	client.Client
	created chan string
}

func (r *copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	from := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, from); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	result, err := client.CreateOrUpdate(ctx, r.Client, to, func() error {
		to.StringData = from.Data
		return ctrl.SetControllerReference(from, to, r.Scheme())
	})
	if result == client.OperationResultCreated {
		r.created <- to.Name
	}
	return ctrl.Result{}, err
}

// SetupWithManager has the copier called for ConfigMaps, and for the Secrets that they own.
func (r *copier) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
}

// A whole manager, against a server in the same process. In a program, the configuration is
// manager.GetConfigOrDie(), and the context manager.SetupSignalHandler().
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	mgr, err := manager.New(server.Config(), manager.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	r := &copier{mgr.GetClient(), make(chan string)}
	if err := r.SetupWithManager(mgr); err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()

	<-mgr.Elected()
	c := mgr.GetClient()
	if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("created a copy of", <-r.created)
	stop()
	fmt.Println("ended:", <-ended)

	// Output:
	// created a copy of hello
	// ended: <nil>
}
