// Browsers start no worker for a page that was opened from a file. The site's search then runs in a hidden frame.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inner = frame.contentWindow;
    this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
    const script = this.inner.document.createElement("script");
    this.ready = new Promise(resolve => script.addEventListener("load", resolve));
    script.src = url;
    this.inner.document.body.append(script);
  }

  postMessage(data) {
    this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
  }
};

if (location.protocol === "file:") window.Worker = window.IFrameWorker;
