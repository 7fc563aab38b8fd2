package workqueue_test

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/workqueue"
)

// A worker takes keys until the queue shuts down. What fails comes again, later each time.
func Example() {
	queue := workqueue.New(workqueue.Options[string]{Name: "widgets"})
	failed := false
	reconcile := func(key string) error {
		if key == "default/b" && !failed {
			failed = true
			return errors.New("not yet")
		}
		return nil
	}

	queue.Add("default/a")
	queue.Add("default/b")
	queue.Add("default/a") // once is enough
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := reconcile(key); err != nil {
			fmt.Println(key, err)
			queue.AddRateLimited(key)
		} else {
			fmt.Println(key, "is well, after failures:", queue.NumRequeues(key))
			queue.Forget(key)
		}
		queue.Done(key)
		if failed && key == "default/b" && queue.NumRequeues(key) == 0 {
			queue.ShutDown()
		}
	}

	// Output:
	// default/a is well, after failures: 0
	// default/b not yet
	// default/b is well, after failures: 1
}

// The initial list waits while there is something new.
func ExampleQueue_AddWithOpts() {
	queue := workqueue.New(workqueue.Options[string]{})
	queue.AddWithOpts(workqueue.AddOpts{Priority: -100}, "default/old", "default/older")
	queue.Add("default/new")
	queue.ShutDown()
	for {
		key, priority, shutdown := queue.GetWithPriority()
		if shutdown {
			return
		}
		fmt.Println(key, priority)
		queue.Done(key)
	}

	// Output:
	// default/new 0
	// default/old -100
	// default/older -100
}
