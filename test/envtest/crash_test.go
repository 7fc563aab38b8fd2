package envtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// crashes is the environment variable that makes this program a suite that crashes.
const crashes = "KAPOK_TEST_CRASHES"

// crash starts an environment, prints its address, and exits without stopping it at the end of its
// input.
func crash() {
	env := &envtest.Environment{BinaryAssetsDirectory: os.Getenv(crashes)}
	if _, err := env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(env.ControlPlane.Etcd.URL.Host)
	fmt.Println(env.ControlPlane.APIServer.SecureServing.URL("https", "").Host)
	fmt.Println(env.ControlPlane.Etcd.DataDir)
	fmt.Println(env.ControlPlane.APIServer.CertDir)
	select {}
}

// TestCrash kills a suite: neither processes nor files of its control plane may remain.
func TestCrash(t *testing.T) {
	suite := exec.Command(os.Args[0])
	suite.Env = append(os.Environ(), crashes+"="+assets)
	suite.Stderr = os.Stderr
	out, err := suite.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	for len(said) < 4 && lines.Scan() {
		said = append(said, lines.Text())
	}
	if err := suite.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = suite.Wait()
	if len(said) < 4 {
		t.Fatalf("the suite has said %q", said)
	}
	for _, address := range said[:2] {
		await(t, address+" to be closed", func(ctx context.Context) (bool, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err == nil {
				c.Close()
			}
			return err != nil, nil
		})
	}
	for _, dir := range said[2:] {
		await(t, dir+" to be removed", func(context.Context) (bool, error) {
			_, err := os.Stat(dir)
			return errors.Is(err, fs.ErrNotExist), nil
		})
	}
}
