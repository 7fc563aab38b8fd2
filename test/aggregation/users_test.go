package aggregation

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reads are the objects that the admission plugins and the flow control of the extension server
// read.
const reads = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wardle}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [flowcontrol.apiserver.k8s.io], resources: [prioritylevelconfigurations, flowschemas], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wardle}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wardle}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
`

// readers allows two users to read flunders in the namespace default: jane, with a certificate, and
// the service account robot.
const readers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: flunder-reader, namespace: default}
rules: [{apiGroups: [wardle.example.com], resources: [flunders], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: flunder-readers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: flunder-reader}
subjects:
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}
- {kind: ServiceAccount, name: robot, namespace: default}
`

const flunders = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"

// TestUsers checks that the extension server needs no admin rights, and that roles in Kapok decide
// what its users may do: both those whose requests Kapok proxies, and those who connect to it
// directly, with tokens of Kapok.
func TestUsers(t *testing.T) {
	w := start(t)
	w.register()
	// The server runs as a service account with the permissions in docs/extension-servers.md.
	w.want("created", "create", "serviceaccount", "apiserver", "-n", "wardle")
	w.want("created", "create", "clusterrolebinding", "wardle-delegates", "--clusterrole=system:auth-delegator", "--serviceaccount=wardle:apiserver")
	w.want("created", "create", "rolebinding", "wardle-auth-reader", "-n", "kube-system",
		"--role=extension-apiserver-authentication-reader", "--serviceaccount=wardle:apiserver")
	w.apply(reads)
	w.wardle(w.login("apiserver", "wardle"))
	w.available("True")
	w.apply("{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: one}, spec: {reference: other}}")
	w.want("", "create", "serviceaccount", "robot")
	jane := w.add("jane")
	robot := w.want("", "create", "token", "robot")
	direct := w.direct()

	// Without a role both are forbidden. Headers that name a user do not authenticate.
	w.refused(`User "jane" cannot list resource "flunders" in API group "wardle.example.com"`, "get", "flunders", "--kubeconfig", jane)
	for _, c := range []struct {
		who, says string
		code      int
		headers   []string
	}{
		{"a stranger", `User \"system:anonymous\" cannot list resource \"flunders\"`, 403, nil},
		{"a forged token", "Unauthorized", 401, []string{"Authorization", "Bearer " + robot + "x"}},
		{"a stranger who pretends", `User \"system:anonymous\" cannot list resource \"flunders\"`, 403,
			[]string{"X-Remote-User", "kubernetes-admin", "X-Remote-Group", "system:masters"}},
		{"robot", `User \"system:serviceaccount:default:robot\" cannot list resource \"flunders\"`, 403, []string{"Authorization", "Bearer " + robot}},
	} {
		if code, text := direct(c.headers...); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s\nwant %d %s", c.who, code, text, c.code, c.says)
		}
	}

	w.apply(readers)
	w.want("one", "get", "flunders", "--kubeconfig", jane)
	w.refused(`User "jane" cannot delete resource "flunders"`, "delete", "flunder", "one", "--kubeconfig", jane)
	w.refused(`User "jane" cannot list resource "flunders" in API group "wardle.example.com" at the cluster scope`, "get", "flunders", "-A", "--kubeconfig", jane)
	// The server caches the review of the robot for some seconds.
	w.until("the robot may read", func() error {
		if code, text := direct("Authorization", "Bearer "+robot); code != 200 || !strings.Contains(text, `"one"`) {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	w.want("", "delete", "rolebinding", "flunder-readers")
	w.until("jane may no longer", func() error {
		if out, err := w.kubectl("", "get", "flunders", "--kubeconfig", jane); err == nil {
			return errors.New(out)
		}
		return nil
	})
	// The token of a deleted account is not valid.
	w.want("", "delete", "serviceaccount", "robot")
	w.until("the robot's token is rejected", func() error {
		if code, text := direct("Authorization", "Bearer "+robot); code != 401 {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
}

// login writes a kubeconfig with a token of a service account.
func (w *world) login(name, namespace string) (kubeconfig string) {
	w.Helper()
	kubeconfig = filepath.Join(w.home, name)
	token := w.want("", "create", "token", name, "-n", namespace)
	minified := w.want("", "config", "view", "--minify", "--flatten")
	if err := os.WriteFile(kubeconfig, []byte(minified), 0o600); err != nil {
		w.Fatal(err)
	}
	user := w.want("", "config", "view", "--minify", "-o", "jsonpath={.users[0].name}")
	w.want("", "config", "unset", "users."+user, "--kubeconfig", kubeconfig)
	w.want("", "config", "set-credentials", name, "--token", token, "--kubeconfig", kubeconfig)
	w.want("", "config", "set-context", "--current", "--user", name, "--kubeconfig", kubeconfig)
	w.want("system:serviceaccount:"+namespace+":"+name, "auth", "whoami", "--kubeconfig", kubeconfig)
	return kubeconfig
}

// add creates a user with a certificate.
func (w *world) add(name string) (kubeconfig string) {
	w.Helper()
	kubeconfig = filepath.Join(w.home, name)
	w.start("kapok", "user", "add", name, "--kubeconfig", w.kubeconfig, "--output", kubeconfig)
	w.until(name+" can log in", func() error {
		_, err := w.kubectl("", "auth", "whoami", "--kubeconfig", kubeconfig)
		return err
	})
	return kubeconfig
}

func (w *world) refused(text string, args ...string) {
	w.Helper()
	if out, err := w.kubectl("", args...); err == nil || !strings.Contains(out, text) {
		w.Errorf("kubectl %s: %v\n%s\nwant %q", strings.Join(args, " "), err, out, text)
	}
}

// direct requests flunders from the extension server directly, with headers.
func (w *world) direct() func(headers ...string) (code int, text string) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "api.wardle.svc"}}}
	w.Cleanup(client.CloseIdleConnections)
	return func(headers ...string) (int, string) {
		r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", w.port, flunders), nil)
		if err != nil {
			w.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			w.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			w.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
}
