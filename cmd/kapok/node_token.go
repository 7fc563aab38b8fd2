package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// bootstrapGroup is the group that kubeadm gives to the tokens of nodes.
const bootstrapGroup = "system:bootstrappers:kubeadm:default-node-token"

const (
	tokenPrefix = "bootstrap-token-" // of the names of Secrets
	tokenField  = "type=bootstrap.kubernetes.io/token"
)

var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

func (s *nodeServer) client() (kubernetes.Interface, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

func newTokenCreate() *cobra.Command {
	var server nodeServer
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a bootstrap token, and allow such tokens to join",
		Long: `Create a bootstrap token, and print it. Its holder can become any node until it expires.

If they do not exist, it also creates the three cluster role bindings that kubeadm makes: nodes with such a token may
request a certificate, and certificatesigningrequest-approving-controller approves the first one and its renewals.
The server needs --enable-bootstrap-token-auth.`,
		Example: `  kapok node token create --kubeconfig admin.kubeconfig --ttl 1h`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if ttl < time.Second {
				return fmt.Errorf("--ttl must be at least 1s, like 2h, not %v", ttl)
			}
			client, err := server.client()
			if err != nil {
				return failed(err)
			}
			token, err := createToken(c.Context(), client, ttl, time.Now())
			if err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return failed(err)
		},
	}
	server.flags(c)
	c.Flags().DurationVar(&ttl, "ttl", 2*time.Hour, "time until the token expires")
	return c
}

// createToken creates the Secret of a new token, and the bindings that let tokens join.
func createToken(ctx context.Context, client kubernetes.Interface, ttl time.Duration, now time.Time) (token string, err error) {
	if err := allowTokens(ctx, client); err != nil {
		return "", err
	}
	id, private := strings.ToLower(rand.Text()[:6]), strings.ToLower(rand.Text()[:16]) // 5 random bits a letter
	_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tokenPrefix + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": private, "expiration": now.Add(ttl).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": bootstrapGroup,
		},
	}, metav1.CreateOptions{})
	return id + "." + private, err
}

// allowTokens creates the cluster role bindings that do not exist.
func allowTokens(ctx context.Context, client kubernetes.Interface) error {
	for _, b := range []struct{ name, role, group string }{
		{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", bootstrapGroup},
		{"kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", bootstrapGroup},
		{"kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", nodesGroup},
	} {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cluster role binding %s: %w", b.name, err)
		}
	}
	return nil
}

func newTokenList() *cobra.Command {
	var server nodeServer
	c := &cobra.Command{
		Use:   "list",
		Short: "List bootstrap tokens, without their secret parts",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := server.client()
			if err != nil {
				return failed(err)
			}
			return failed(listTokens(c.Context(), client, c.OutOrStdout()))
		},
	}
	server.flags(c)
	return c
}

func listTokens(ctx context.Context, client kubernetes.Interface, out io.Writer) error {
	list, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: tokenField})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tEXPIRATION\tGROUPS")
	for _, s := range list.Items {
		expiration := string(s.Data["expiration"])
		if expiration == "" {
			expiration = "never"
		}
		// Other clients may have written these texts: quoted, they cannot control the terminal.
		fmt.Fprintf(w, "%s\t%s\t%s\n", strings.TrimPrefix(s.Name, tokenPrefix), printable(expiration), printable(string(s.Data["auth-extra-groups"])))
	}
	return w.Flush()
}

// printable quotes a text unless all of it is printable.
func printable(text string) string {
	if quoted := fmt.Sprintf("%q", text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func newTokenDelete() *cobra.Command {
	var server nodeServer
	c := &cobra.Command{
		Use:     "delete ID",
		Short:   "Delete a bootstrap token",
		Example: `  kapok node token delete abcdef --kubeconfig admin.kubeconfig`,
		Args:    oneArg("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if !tokenID.MatchString(args[0]) {
				// The message does not repeat the argument, which may be a whole token.
				return errors.New("want the ID of a token: its first six lower-case letters and digits")
			}
			client, err := server.client()
			if err != nil {
				return failed(err)
			}
			return failed(client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(c.Context(), tokenPrefix+args[0], metav1.DeleteOptions{}))
		},
	}
	server.flags(c)
	return c
}
