package view

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// browser is a page in headless Chromium, driven over the Chrome DevTools Protocol. The seven commands that the tests need do not earn
// a library that generates code for all of the protocol's some six hundred.
type browser struct {
	t    *testing.T
	ctx  context.Context
	ws   *websocket.Conn
	page string // session

	mu       sync.Mutex
	next     int
	waiting  map[int]chan reply
	problems []string // errors on the console, exceptions, failed requests
	requests []string // addresses
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

var (
	chromeOnce sync.Once
	chromeURL  string
	chromeErr  error
	chromeStop = func() {}
)

// startChrome starts one browser for all tests; TestMain ends it.
func startChrome(path string) {
	dir, err := os.MkdirTemp("", "pinch-chromium-")
	if err != nil {
		chromeErr = err
		return
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--mute-audio", "--no-first-run", "--disable-dev-shm-usage",
		"--autoplay-policy=no-user-gesture-required", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-extensions", "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--force-color-profile=srgb", "--window-size=1600,1000", "--remote-debugging-port=0", "--user-data-dir="+dir, "about:blank")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		chromeErr = err
		return
	}
	chromeStop = func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			chromeURL = url
			go func() {
				for lines.Scan() { // lest it blocks
				}
			}()
			return
		}
	}
	chromeErr = fmt.Errorf("%s ended without an address of its protocol", path)
}

// openBrowser opens a new page.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("without -short this drives Chromium")
	}
	path := testpeer.Program(t, "chromium", "chromium")
	chromeOnce.Do(func() { startChrome(path) })
	if chromeErr != nil {
		t.Fatal(chromeErr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // not the test's, which ends before its clean-up
	ws, _, err := websocket.Dial(ctx, chromeURL, nil)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	b := &browser{t: t, ctx: ctx, ws: ws, waiting: map[int]chan reply{}}
	left := make(chan struct{})
	go func() {
		defer close(left)
		b.listen()
	}()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.page = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	width, height := 1240, 760 // small: each frame is drawn by the processor
	if os.Getenv("PINCH_SCREENSHOTS") != "" {
		width, height = 1600, 1000
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	t.Cleanup(func() {
		b.page = ""
		b.call("Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil)
		ws.CloseNow()
		<-left
		cancel()
	})
	return b
}

func (b *browser) listen() {
	for {
		_, data, err := b.ws.Read(b.ctx)
		if err != nil {
			b.mu.Lock()
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		var r reply
		if json.Unmarshal(data, &r) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[r.ID]; r.ID != 0 && c != nil {
			c <- r
			delete(b.waiting, r.ID)
		} else {
			b.event(r)
		}
		b.mu.Unlock()
	}
}

// event notes what must not happen, and what was fetched.
func (b *browser) event(r reply) {
	switch r.Method {
	case "Runtime.exceptionThrown":
		b.problems = append(b.problems, string(r.Params))
	case "Runtime.consoleAPICalled":
		if strings.Contains(string(r.Params), `"type":"error"`) {
			b.problems = append(b.problems, string(r.Params))
		}
	case "Log.entryAdded":
		if strings.Contains(string(r.Params), `"level":"error"`) {
			b.problems = append(b.problems, string(r.Params))
		}
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		json.Unmarshal(r.Params, &p)
		b.requests = append(b.requests, p.Request.URL)
	}
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	id, c := b.next, make(chan reply, 1)
	if b.waiting == nil {
		b.mu.Unlock()
		b.t.Fatalf("%s: the browser has closed the connection", method)
	}
	b.waiting[id] = c
	b.mu.Unlock()
	msg := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		msg["params"] = map[string]any{}
	}
	if b.page != "" {
		msg["sessionId"] = b.page
	}
	data, _ := json.Marshal(msg)
	if err := b.ws.Write(b.ctx, websocket.MessageText, data); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	r, ok := <-c
	if !ok {
		b.t.Fatalf("%s: the browser has closed the connection", method)
	}
	if r.Error != nil {
		b.t.Fatalf("%s: %s", method, r.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result, result); err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
}

// eval evaluates an expression, awaits it if it is a promise, and stores its value.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if into == nil {
		return
	}
	if len(r.Result.Value) == 0 {
		b.t.Fatalf("%s has no value", expression)
	}
	if err := json.Unmarshal(r.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %v in %s", expression, err, r.Result.Value)
	}
}

// wait waits until an expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		var ok bool
		b.eval("!!("+expression+")", &ok)
		if ok {
			return
		}
		if time.Now().After(deadline) {
			b.shot("timeout")
			var body string
			b.eval("document.body.innerText.slice(0, 2000)", &body)
			b.t.Fatalf("waited in vain for %s; problems %v; the page says:\n%s", expression, b.problems, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// press presses a key by its name in KeyboardEvent.key.
func (b *browser) press(key string, n int) {
	b.t.Helper()
	for range n {
		p := map[string]any{"type": "keyDown", "key": key}
		if len(key) == 1 {
			p["text"] = key
		}
		b.call("Input.dispatchKeyEvent", p, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
	}
}

// drag moves the mouse with its button down over the middle of an element.
func (b *browser) drag(selector string, dx, dy float64) {
	b.t.Helper()
	var at [2]float64
	b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector), &at)
	mouse := func(kind string, x, y float64) {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}, nil)
	}
	mouse("mousePressed", at[0], at[1])
	mouse("mouseMoved", at[0]+dx/2, at[1]+dy/2)
	mouse("mouseMoved", at[0]+dx, at[1]+dy)
	mouse("mouseReleased", at[0]+dx, at[1]+dy)
}

// shot saves a picture of the page into the folder PINCH_SCREENSHOTS, if there is one.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("PINCH_SCREENSHOTS")
	if dir == "" {
		return
	}
	var r struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	data, _ := base64.StdEncoding.DecodeString(r.Data)
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		b.t.Error(err)
	}
}

// clean verifies that the page made no mistake and asked nobody but its server.
func (b *browser) clean(base string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the page has a problem: %.600s", p)
	}
	if len(b.requests) == 0 {
		b.t.Error("no request was seen, not even for the page itself")
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, base) && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asked for %s", url)
		}
	}
}
