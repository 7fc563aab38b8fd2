package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"
)

func frames(t *testing.T, r io.Reader) (all []string, err error) {
	t.Helper()
	s := &stream{body: io.NopCloser(r)}
	for {
		f, err := s.next()
		if err != nil {
			return all, err
		}
		all = append(all, f.event+" "+string(f.object.bytes))
	}
}

func TestFramesOfJSON(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string
		err        error // nil: io.EOF
	}{
		{name: "none"},
		{name: "lines", body: `{"type":"ADDED","object":{"a":1}}` + "\n" + `{"type":"DELETED","object":{}}` + "\n",
			want: []string{`ADDED {"a":1}`, `DELETED {}`}},
		{name: "no lines", body: `{"object":{"a":"}{\"\\"},"type":"\u0041DDED"}{"type":"X","object":[]}`,
			want: []string{`ADDED {"a":"}{\"\\"}`, `X []`}},
		{name: "pretty", body: " \r\n\t{\n \"type\" : \"ERROR\" ,\n \"object\" : { } ,\n\"more\":null }\n \n", want: []string{`ERROR { }`}},
		{name: "cut", body: `{"type":"ADDED","object":{"a":1}}{"type":"ADDED","ob`, want: []string{`ADDED {"a":1}`}, err: io.ErrUnexpectedEOF},
		{name: "cut in a string", body: `{"type":"ADD}`, err: io.ErrUnexpectedEOF},
		{name: "not an object", body: `[]`, err: errors.New("")},
		{name: "no object", body: `{"type":"ADDED"}`, err: errors.New("")},
		{name: "type is no string", body: `{"type":1,"object":{}}`, err: errJSON},
		{name: "garbage within", body: `{"type" "ADDED"}`, err: errJSON},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.body), iotest.OneByteReader(strings.NewReader(tc.body))} {
				got, err := frames(t, r)
				if strings.Join(got, "|") != strings.Join(tc.want, "|") {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				switch {
				case tc.err == nil && err != io.EOF, tc.err != nil && err == io.EOF,
					tc.err != nil && tc.err.Error() != "" && !errors.Is(err, tc.err):
					t.Errorf("got %v, want %v", err, tc.err)
				}
			}
		})
	}
}

func TestFramesOfProtobuf(t *testing.T) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var body bytes.Buffer
	w := info.StreamSerializer.Framer.NewFrameWriter(&body)
	big := strings.Repeat("x", 3<<20)
	for _, data := range []string{"", "1", big, "2"} {
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": data}})
		if err != nil {
			t.Fatal(err)
		}
		event := &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: raw}}
		if err := scheme.Codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion).Encode(event, w); err != nil {
			t.Fatal(err)
		}
	}
	whole := body.Bytes()
	s := &stream{body: io.NopCloser(bytes.NewReader(whole))}
	for _, data := range []string{"", "1", big, "2"} {
		f, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		var o corev1.ConfigMap
		if err := o.Unmarshal(f.object.bytes); err != nil || o.Data["k"] != data || f.event != "ADDED" {
			t.Errorf("got %q, %v", f.event, err)
		}
	}
	if _, err := s.next(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if _, err := frames(t, bytes.NewReader(whole[:len(whole)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := frames(t, bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxFrame+1))); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// FuzzFrames is about foreign bytes: they end in an error, and nothing else, and are taken apart
// alike in one piece and in many.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"a":"}{\"\\"}}` + "\n" + `{"type":"DELETED","object":{}}`))
	f.Add([]byte("\x00\x00\x00\x12\x0a\x05ADDED\x12\x09\x0a\x07k8s\x00\x12\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		one, err := frames(t, bytes.NewReader(b))
		many, other := frames(t, iotest.OneByteReader(bytes.NewReader(b)))
		if strings.Join(one, "|") != strings.Join(many, "|") || (err == io.EOF) != (other == io.EOF) {
			t.Errorf("%q in one piece: %q, %v; in many: %q, %v", b, one, err, many, other)
		}
		_, _ = splitList(b)
	})
}

// FuzzScan compares what is scanned with what is decoded: what can be decoded is scanned, and
// alike.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1","deletionTimestamp":"2020-01-01T00:00:00Z",`+
		`"labels":{"x":"y\u00e9\n"}},"more":[1,2.5e3,{"a":null}]}`), false)
	f.Add([]byte(` { "metadata" : { "name":null, "deletionTimestamp":null , "labels":null} , "spec":{"metadata":{"name":"not me"}} } `), false)
	f.Add([]byte(`{"metadata":null}`), false)
	f.Add([]byte("{\"metadata\":{\"name\":\"\xff\"},\"metadata\":{\"uid\":\"u\"}}"), false)
	m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "c", ResourceVersion: "7",
		Labels: map[string]string{"x": "y"}, DeletionTimestamp: &metav1.Time{}}}
	b, err := m.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, true)
	f.Fuzz(func(t *testing.T, b []byte, protobuf bool) {
		o := encoded{bytes: b, protobuf: protobuf}
		s, scanErr := o.scan()
		labels, labelErr := o.labels()
		var m metav1.PartialObjectMetadata
		if protobuf {
			err = m.Unmarshal(b)
		} else {
			err = json.UnmarshalCaseSensitivePreserveInts(b, &m)
		}
		if err != nil {
			return // what the scan says then is of no account
		}
		if protobuf && (scanErr != nil || labelErr != nil) {
			return // decoders let pass overlong numbers, and groups without a proper end, in what they skip
		}
		if scanErr != nil || labelErr != nil {
			t.Fatalf("%q is decoded, but not scanned: %v, %v", b, scanErr, labelErr)
		}
		want := identity{namespace: m.Namespace, name: m.Name, uid: string(m.UID), revision: m.ResourceVersion, deleting: m.DeletionTimestamp != nil}
		if s.identity.clone() != want {
			t.Errorf("%q: scanned %+v, decoded %+v", b, s.identity, want)
		}
		for name, value := range m.Labels {
			if labels.Get(name) != value {
				t.Errorf("%q: label %q is %q, want %q", b, name, labels.Get(name), value)
			}
		}
		for _, l := range labels {
			if _, ok := m.Labels[l.name]; !ok {
				t.Errorf("%q: label %q is scanned and not decoded", b, l.name)
			}
		}
	})
}
