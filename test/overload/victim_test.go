package overload

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// victimVariable makes the test binary run as the victim: its value is the path of the kubeconfig.
const victimVariable = "KAPOK_OVERLOAD_VICTIM"

const (
	// The rate of gets and of creates, per second.
	victimRate = 50
	// victimPatience is the time limit of a request of the victim.
	victimPatience = 15 * time.Second
)

// A sample has the victim's measurements.
type sample struct {
	Gets, Creates []time.Duration // latencies of successful requests
	Created       []string        // names that the server has acknowledged
	Refused       int             // 429
	Errors        []string
}

// percentile returns the smallest duration that at least the given percentage does not exceed; 0 if
// there are none.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// A victim is the process of the small user, as seen by the test.
type victim struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// A command is a line of JSON from the test to the victim.
type command struct {
	Prefix string // prefix of the names of objects
	Length time.Duration
}

// startVictim starts the process, and returns when it is connected.
func (b *battle) startVictim(ctx context.Context) (*victim, error) {
	kubeconfig, err := b.server.user("victim")
	if err != nil {
		return nil, err
	}
	v := &victim{cmd: exec.CommandContext(ctx, os.Args[0])}
	v.cmd.Env = append(os.Environ(), victimVariable+"="+kubeconfig)
	v.cmd.Stderr = &v.errs
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	v.out = bufio.NewReader(out)
	if err := preferred(v.cmd.Start); err != nil {
		return nil, err
	}
	if _, err := v.out.ReadString('\n'); err != nil {
		v.end()
		return nil, fmt.Errorf("%w: %s", err, &v.errs)
	}
	return v, nil
}

// measure has the victim send requests for a while.
func (v *victim) measure(prefix string, length time.Duration) (s sample, err error) {
	line, err := json.Marshal(command{Prefix: prefix, Length: length})
	if err != nil {
		return s, err
	}
	if _, err := v.in.Write(append(line, '\n')); err != nil {
		return s, err
	}
	if line, err = v.out.ReadBytes('\n'); err != nil {
		return s, fmt.Errorf("%w: %s", err, &v.errs)
	}
	return s, json.Unmarshal(line, &s)
}

// end ends the process and waits for it.
func (v *victim) end() {
	v.in.Close()
	_ = v.cmd.Wait()
}

// small is the victim in its own process.
type small struct {
	client *http.Client
	url    string // of the config maps in its namespace

	mu     sync.Mutex
	sample sample
}

// beVictim runs commands until there are no more.
func beVictim(kubeconfig string, in io.Reader, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := newClient(config, true)
	if err != nil {
		return err
	}
	v := &small{client: client, url: config.Host + "/api/v1/namespaces/victim/configmaps"}
	v.create(context.Background(), "first")
	v.get(context.Background())
	if len(v.sample.Errors) > 0 {
		return fmt.Errorf("first requests: %s", v.sample.Errors[0])
	}
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		v.sample = sample{}
		v.work(c)
		if err := json.NewEncoder(out).Encode(&v.sample); err != nil {
			return err
		}
	}
	return nil
}

// work sends requests at a steady rate, whether or not earlier ones have been answered, and waits
// for all responses.
func (v *small) work(c command) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Length)
	defer cancel()
	var requests sync.WaitGroup
	defer requests.Wait()
	pace := time.NewTicker(time.Second / (2 * victimRate))
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		if i%2 == 0 {
			requests.Go(func() { v.get(context.Background()) })
		} else {
			requests.Go(func() { v.create(context.Background(), fmt.Sprintf("%s-%d", c.Prefix, i)) })
		}
	}
}

func (v *small) get(ctx context.Context) {
	took, ok := v.send(ctx, http.MethodGet, v.url+"/first", "", http.StatusOK)
	v.mu.Lock()
	defer v.mu.Unlock()
	if ok {
		v.sample.Gets = append(v.sample.Gets, took)
	}
}

func (v *small) create(ctx context.Context, name string) {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"colour":"red","text":%q}}`, name, strings.Repeat("x", 200))
	took, ok := v.send(ctx, http.MethodPost, v.url, body, http.StatusCreated)
	v.mu.Lock()
	defer v.mu.Unlock()
	if ok {
		v.sample.Creates = append(v.sample.Creates, took)
		v.sample.Created = append(v.sample.Created, name)
	}
}

// send sends one request, and counts errors.
func (v *small) send(ctx context.Context, method, url, body string, want int) (took time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, victimPatience)
	defer cancel()
	begin := time.Now()
	code, answer, err := exchange(ctx, v.client, method, url, "application/json", strings.NewReader(body))
	took = time.Since(begin)
	if err == nil && code == want {
		return took, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil:
		v.sample.Errors = append(v.sample.Errors, fmt.Sprintf("after %v: %v", short(took), err))
	case code == http.StatusTooManyRequests:
		v.sample.Refused++
	default:
		v.sample.Errors = append(v.sample.Errors, fmt.Sprintf("%s %s: %d %.200s", method, url, code, answer))
	}
	return took, false
}

// exchange sends a request and reads the response.
func exchange(ctx context.Context, c *http.Client, method, url, contentType string, body io.Reader) (code int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", cmp.Or(contentType, "application/json"))
	response, err := c.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
