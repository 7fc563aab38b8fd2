package oracle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/test/corpus/auditlog"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/flagz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// token is the admin's. The server listens on the loopback interface during a test.
const token = "oracle"

// flags make kube-apiserver comparable: it runs without controllers, so that the admission plugin
// is disabled that rejects pods whose service account a controller has not created yet.
var flags = []string{
	"--disable-admission-plugins=ServiceAccount",
	"--enable-admission-plugins=NodeRestriction",
	"--authorization-mode=Node,RBAC",
	"--allow-privileged=true", // as in all clusters
	"--endpoint-reconciler-type=none",
	"--service-cluster-ip-range=10.96.0.0/12",
	"--service-account-issuer=https://kubernetes.default.svc",
	// Compaction happens only when a script requests it.
	"--etcd-compaction-interval=24h",
	// A script can send any number of requests.
	"--max-requests-inflight=0",
	"--max-mutating-requests-inflight=0",
	"--enable-priority-and-fairness=false",
}

// A Server is a kube-apiserver and its etcd.
type Server struct {
	cancel context.CancelFunc
	etcd   *store
	host   string
	ca     string

	auditLog string // its file

	done chan struct{}
	err  error // why the apiserver ended; set before done is closed
}

// Start runs etcd and kube-apiserver with their files below dir, and returns when the server is
// ready. more are further flags of kube-apiserver.
func Start(ctx context.Context, dir string, more ...string) (*Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	etcd, err := startStore(filepath.Join(dir, "etcd"))
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Server{cancel: cancel, etcd: etcd, done: make(chan struct{})}
	if err := s.startAPIServer(ctx, dir, more); err != nil {
		cancel()
		etcd.stop()
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Config returns the configuration of a member of system:masters.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.host,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.ca},
		QPS:             -1,
	}
}

// AuditLog returns the file with the audit log of the policy auditlog.Policy.
func (s *Server) AuditLog() string { return s.auditLog }

// Compact removes all revisions but the last.
func (s *Server) Compact(ctx context.Context) error { return s.etcd.compact(ctx) }

// Stop ends the server and waits for it. It returns the error with which kube-apiserver ended, if
// any.
func (s *Server) Stop() error {
	s.cancel()
	<-s.done
	s.etcd.stop()
	return s.err
}

func (s *Server) startAPIServer(ctx context.Context, dir string, more []string) error {
	// The renewal of a lease is a revision, which would change the resourceVersions of lists.
	controlplaneapiserver.IdentityLeaseRenewIntervalPeriod = time.Hour

	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	key := filepath.Join(dir, "service-account.key")
	if err := writeSigningKey(key); err != nil {
		return err
	}
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditlog.Policy), 0o600); err != nil {
		return err
	}
	s.auditLog = filepath.Join(dir, "audit.log")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().(*net.TCPAddr)
	certs := filepath.Join(dir, "certs")
	s.host = "https://" + address.String()
	s.ca = filepath.Join(certs, "apiserver.crt")

	o := options.NewServerRunOptions()
	set := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	named := o.Flags()
	for _, f := range named.FlagSets {
		set.AddFlagSet(f)
	}
	o.Flagz = flagz.NamedFlagSetsReader{FlagSets: named}
	o.SecureServing.Listener = listener
	o.SecureServing.BindPort = address.Port
	args := append([]string{
		"--bind-address=" + address.IP.String(),
		"--cert-dir=" + certs,
		"--etcd-servers=" + s.etcd.endpoint,
		"--token-auth-file=" + tokens,
		"--service-account-signing-key-file=" + key,
		"--service-account-key-file=" + key,
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + s.auditLog,
	}, append(slices.Clone(flags), more...)...)
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	utilfeature.DefaultMutableFeatureGate.AddMetrics() // as the program does
	o.GenericServerRunOptions.ComponentGlobalsRegistry.AddMetrics()
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return errors.Join(errs...)
	}
	go func() {
		defer close(s.done)
		s.err = app.Run(ctx, completed)
	}()
	return nil
}

// waitReady returns when /readyz returns ok and the bootstrap hooks have created the namespaces of
// every cluster.
func (s *Server) waitReady(ctx context.Context) error {
	ready := func(ctx context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, fmt.Errorf("kube-apiserver ended before it was ready: %w", s.err)
		default:
		}
		client, err := rest.HTTPClientFor(s.Config())
		if err != nil {
			return false, nil // the certificate is not written yet
		}
		for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-node-lease"} {
			answer, err := client.Get(s.host + path)
			if err != nil {
				return false, nil
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return false, nil
			}
		}
		return true, nil
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, ready)
}
