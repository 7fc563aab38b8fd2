package kapok_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kapok-dev/kapok"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A server in memory, without a socket, and a client of it.
func Example() {
	ctx := context.Background()
	server, err := kapok.Start(ctx, kapok.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()

	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range namespaces.Items {
		fmt.Println(n.Name)
	}
	// Output:
	// default
	// kube-node-lease
	// kube-public
	// kube-system
}
