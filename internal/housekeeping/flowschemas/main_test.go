package flowschemas

import (
	"io"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false) // what Kubernetes' own code has to say
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}
