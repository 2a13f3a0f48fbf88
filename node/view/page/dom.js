// Elements made in code. Text is always text: names of agents come from data.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

export const number = (value) => value.toLocaleString("en");

export function bytes(value) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000 || unit === "GB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1000;
  }
}

export function figures(pairs) {
  return make("dl", { className: "figures" }, ...pairs.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

export const seconds = (value) => value < 100 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`;
