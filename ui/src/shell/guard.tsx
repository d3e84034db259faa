// What an agent sent may be more than this page can show: then that one thing is shown otherwise, and the rest goes on.

import { Component, type ComponentChildren } from "preact";

interface GuardProps {
  instead: ComponentChildren;
  children: ComponentChildren;
}

export class Guard extends Component<GuardProps, { broken: boolean }> {
  override state = { broken: false };

  static override getDerivedStateFromError(): { broken: boolean } {
    return { broken: true };
  }

  override render() {
    return this.state.broken ? this.props.instead : this.props.children;
  }
}
