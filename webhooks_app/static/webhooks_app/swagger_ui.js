// A separate file, because a strict Content-Security-Policy forbids inline scripts.
window.addEventListener("load", () => {
  const element = document.getElementById("swagger-ui");
  SwaggerUIBundle({ domNode: element, url: element.dataset.openapiUrl, deepLinking: true });
});
